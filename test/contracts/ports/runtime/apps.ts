// The processes of the releases that the contract applies, as scripts of Node.js.

/** Answers with its variable ANSWER, after DELAY ms; GET /crash ends it. */
export const answeringApp = `
  console.log("listening as", process.env.ANSWER);
  require("node:http").createServer((req, res) => {
    if (req.url === "/crash") { console.error("going down"); process.exit(3); }
    setTimeout(() => res.end(process.env.ANSWER), Number(process.env.DELAY ?? 0));
  }).listen(process.env.PORT);
`;
export const crashingApp = `console.log("cannot find my settings"); process.exit(7);`;
/** Answers with a name that each process chooses at random. */
export const namedApp = `const name = crypto.randomUUID();
  require("node:http").createServer((req, res) => res.end(name)).listen(process.env.PORT)`;
export const workingApp = `console.log("at work"); setInterval(() => {}, 1000);`;
