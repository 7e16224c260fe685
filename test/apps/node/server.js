// Greets with the variable GREETING, and shows the names (never the values) of the variables it received.
const http = require("node:http");

const greeting = process.env.GREETING ?? "Hello! Set the variable GREETING and see it change here.";
const names = Object.keys(process.env).sort();

http
  .createServer((request, response) => {
    if (request.url === "/healthz") return response.end("ok\n");
    console.log(`${request.method} ${request.url}`);
    response.setHeader("content-type", "text/plain; charset=utf-8");
    response.end(`${greeting}\n\nI received: ${names.join(", ")}\n`);
  })
  .listen(process.env.PORT, () => console.log(`listening on port ${process.env.PORT}`));
