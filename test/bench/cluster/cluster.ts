import { randomBytes } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import type { RunSettings } from "../../../deploy/cluster/run/run-settings.ts";
import type { Kube } from "../../../services/deployer/kube/client.ts";
import type { Door } from "../../support/door.ts";
import type { Figure } from "../row.ts";

/** Rows that are measured on a cluster. */
export type ClusterBench = {
  names: string[];
  run: (at: { door: Door; kube: Kube; settings: RunSettings; call: Kubectl }) => Promise<Figure[]>;
};

/** Runs kubectl and returns its output. */
export type Kubectl = (args: string[], input?: string) => Promise<string>;

export type Deployment = {
  version: number;
  status: string;
  createdAt: string;
  healthyAt?: string;
  image?: string;
  errors: unknown[];
};

/** An app that needs only node. */
export const server = `require("node:http").createServer((_, r) => r.end("ok")).listen(process.env.PORT);`;

/** Creates a web service that runs `server` from an image; returns its path. */
export async function imageService(door: Door, E: string): Promise<string> {
  const name = `app-${randomBytes(4).toString("hex")}`;
  const config = { command: `node -e '${server}'`, minReadySeconds: 0 };
  await door.must("POST", `${E}/services`, { name, type: "web", config });
  return `${E}/services/${name}`;
}

/** Returns the milliseconds until `probe` returns true, called every 25 ms. */
export async function timeUntil(probe: () => Promise<boolean>): Promise<number> {
  const begun = performance.now();
  while (!(await probe())) {
    if (performance.now() - begun > 240_000) throw new Error("it did not happen within four minutes");
    await delay(25);
  }
  return performance.now() - begun;
}

export async function isHealthy(door: Door, S: string, version: number): Promise<boolean> {
  const found = await door.must<Deployment>("GET", `${S}/deployments/${version}`);
  if (found.status === "failed") throw new Error(JSON.stringify(found.errors));
  return found.healthyAt !== undefined;
}
