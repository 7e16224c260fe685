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

/** An account with a web service to which the echo app was deployed, or another one. */
export async function echoApp(
  { port, variables }: TestDeployer,
  more: object = {},
  values: { name: string; value: string }[] = [],
  app: Record<string, string> = echo,
) {
  const acting = actAs(port, newId("acc"));
  const environment = await acting.environment();
  const made = { ...environment, name: "echo", type: "web", ...more };
  const { id } = await acting.catalog.createService(made);
  variables.set(id, values);
  const path = environment.at("echo");
  await acting.deployArchive(path, await archiveOf(app));
  return { ...acting, environment, path, id };
}

/** The same, once it runs. */
export async function echoService(...of: Parameters<typeof echoApp>) {
  const made = await echoApp(...of);
  await made.until(made.path, 1, "applied");
  const { url } = await made.untilService(made.path, "running");
  return { ...made, url: url! };
}

export async function environmentAt(url: string): Promise<Record<string, string>> {
  return JSON.parse((await visit(url)).text);
}
