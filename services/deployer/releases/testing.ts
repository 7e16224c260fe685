import { newId } from "../../kit/ids.ts";
import { actAs, archiveOf, type TestDeployer, visit } from "../testing/testing.ts";

/** An app that answers with its environment and logs every request. */
export const echo = {
  "package.json": JSON.stringify({ name: "echo", scripts: { start: "node server.js" } }),
  "server.js": `
    console.log("started with revision " + process.env.PLATFORM_VARIABLES_REVISION);
    require("node:http").createServer((req, res) => {
      console.log("asked for " + req.url);
      res.end(JSON.stringify(process.env));
    }).listen(process.env.PORT);`,
};

/** An account with a web service that runs the echo app. */
export async function echoService(
  { port, variables }: TestDeployer,
  more: object = {},
  values: { name: string; value: string }[] = [],
) {
  const acting = actAs(port, newId("acc"));
  const environment = await acting.environment();
  const made = { ...environment, name: "echo", type: "web", ...more };
  const { id } = await acting.catalog.createService(made);
  variables.set(id, values);
  const path = environment.at("echo");
  await acting.deployArchive(path, await archiveOf(echo));
  await acting.until(path, 1, "applied");
  const { url } = await acting.untilService(path, "running");
  return { ...acting, environment, path, id, url: url! };
}

export async function environmentAt(url: string): Promise<Record<string, string>> {
  return JSON.parse((await visit(url)).text);
}
