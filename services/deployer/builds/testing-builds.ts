import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { newId } from "../../kit/ids.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { archiveOf, createWebService, type TestDeployer } from "../testing/testing.ts";

// Builds that tests hold and let go on, one by one.

/** An archive of a web service whose build runs this shell script. */
export const archiveWith = (script: string): Promise<Buffer> =>
  archiveOf({
    "package.json": JSON.stringify({
      name: "web",
      scripts: { build: "sh build.sh", start: "node server.js" },
    }),
    "build.sh": script,
    "server.js": "require('node:http').createServer((q, r) => r.end('ok')).listen(process.env.PORT)",
  });

/** An account with a web service, and an archive whose build runs this shell script. */
export async function buildingService(berth: TestDeployer, script: string) {
  return { ...(await createWebService(berth.port)), archive: await archiveWith(script) };
}

/** Returns the path of a file that does not exist. */
export const newFile = (berth: TestDeployer, name: string) => join(berth.dataDir, `${name}-${newId("x")}`);

/** A script that writes its process id, then waits until `go` exists. */
export const waitFor = (go: string, pid: string) =>
  `echo begun; echo $$ > ${pid}; while [ ! -e ${go} ]; do sleep 0.05; done; echo went on`;

/** Waits until the script has written its process id. */
export async function pidIn(file: string): Promise<number> {
  return eventually("the build runs", async () => existsSync(file) && Number(await readFile(file, "utf8")));
}
