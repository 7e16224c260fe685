import { setTimeout as delay } from "node:timers/promises";
import type { RunSettings } from "../../../deploy/cluster/run-settings.ts";
import type { Kubectl } from "../../cluster/kubectl.ts";
import type { Door } from "../../door.ts";
import type { Figure } from "../row.ts";

/** What a bench has at hand. */
export type Stage = { run: RunSettings; door: Door; kubectl: Kubectl };
export type ClusterBench = { name: string; run: (stage: Stage) => Promise<Figure> };

type Times = { status: string; createdAt: string; builtAt?: string; healthyAt?: string; errors: unknown[] };

/** A deployment once it has this time, polled often; an error when it failed. */
export async function timesOf(door: Door, path: string, wanted: "builtAt" | "healthyAt"): Promise<Times> {
  for (const end = Date.now() + 300_000; Date.now() < end; await delay(50)) {
    const found = await door.must<Times>("GET", path);
    if (found.status === "failed") throw new Error(`${path} failed: ${JSON.stringify(found.errors)}`);
    if (found[wanted]) return found;
  }
  throw new Error(`${path} has no ${wanted} after five minutes`);
}

/** Milliseconds that something takes. */
export async function took(work: () => Promise<unknown>): Promise<number> {
  const began = performance.now();
  await work();
  return performance.now() - began;
}
