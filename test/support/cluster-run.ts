import { readFile } from "node:fs/promises";
import type { RunSettings } from "../../deploy/cluster/run/run-settings.ts";
import { network } from "../../deploy/cluster/settings.ts";

/** Returns the settings of this run on a cluster, with the addresses of the cluster and of this machine. */
export async function readRun(): Promise<RunSettings & { network: typeof network }> {
  const file = process.env.BERTH_CLUSTER_RUN;
  if (!file) throw new Error("BERTH_CLUSTER_RUN is not set: these tests run by `npm run test:cluster`.");
  return { ...JSON.parse(await readFile(file, "utf8")), network };
}
