import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { findProcessesOf } from "../../../services/deployer/shared/process-tree.ts";
import type { Check, Checking } from "./checking.ts";

const FOLDERS = ["artifacts", "runtime/services", "store/objects", "store/incoming", "redis"];
const TABLES = ["deployer.projects", "deployer.services", "deployer.usage_intervals", "variables.variables"];

/** Deletes the project in which clients worked. */
export const nothingLeft: Check = {
  name: "nothing left of what was deleted",
  async find(checking) {
    await checking.client.send("DELETE", checking.shared.project, { confirmImpact: true });
    return checking.until(() => look(checking));
  },
};

async function look({ platform, rows }: Checking): Promise<string[]> {
  const { deployerDir } = platform;
  const left = findProcessesOf(deployerDir).map(({ path }) => `a process runs in ${path}`);
  for (const folder of FOLDERS)
    for (const name of await readdir(join(deployerDir, folder)).catch(() => []))
      if (name !== "alive") left.push(`${folder}/${name}`);
  const count = async (what: string) =>
    Number((await rows<{ n: string }>(`select count(*) as n from ${what}`))[0]!.n);
  for (const table of TABLES) if ((await count(table)) > 0) left.push(`rows in ${table}`);
  const addons = await count("pg_database where datname ~ '^(addon|svc|berth_)'");
  if (addons > 0) left.push(`${addons} databases of addons`);
  return left;
}

/** Finds processes that crashed, by their logs. */
export const noCrashes: Check = {
  name: "crashed processes",
  async find({ platform }) {
    const found: string[] = [];
    for (const file of await readdir(platform.logs)) {
      const text = await readFile(join(platform.logs, file), "utf8").catch(() => "");
      for (const line of text.split("\n"))
        if (/^Node\.js v\d|uncaughtException|"unhandled rejection"/.test(line))
          found.push(`${file}: ${line.slice(0, 300)}`);
    }
    return found;
  },
};
