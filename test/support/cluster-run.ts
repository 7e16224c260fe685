import { readFile } from "node:fs/promises";
import type { RunSettings } from "../../deploy/cluster/run/run-settings.ts";

/** Returns the settings of this run on a cluster. */
export async function readRun(): Promise<RunSettings> {
  const file = process.env.BERTH_CLUSTER_RUN;
  if (!file) throw new Error("BERTH_CLUSTER_RUN is not set: these tests run by `npm run test:cluster`.");
  return JSON.parse(await readFile(file, "utf8"));
}
