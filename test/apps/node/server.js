// A web app without dependencies: greets with GREETING, and names the variables it was given.
const http = require("node:http");

const greeting = process.env.GREETING ?? "Hello from Berth";
const names = Object.keys(process.env).sort();

http
  .createServer((request, response) => {
    if (request.url === "/healthz") return response.end("ok\n");
    console.log(`${request.method} ${request.url}`);
    response.setHeader("content-type", "text/plain; charset=utf-8");
    response.end(`${greeting}\n\nVariables: ${names.join(", ")}\n`);
  })
  .listen(process.env.PORT, () => console.log(`listening on ${process.env.PORT}`));

process.on("SIGTERM", () => process.exit(0));
