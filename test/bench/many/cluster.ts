import { fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import type { Call } from "../../support/kube-api/server.ts";

export type ClusterStart = { environments: number; services: number };
export type ClusterAnswer = { url: string; calls: Call[]; watches: number };

/**
 * Starts a process with a simulated API server and as many environments with running services, put there by a deployer
 * with this environment: what it uses is not counted.
 */
export async function startCluster(env: Record<string, string>, size: ClusterStart) {
  const child = fork(join(import.meta.dirname, "cluster-main.ts"), {
    env: { PATH: process.env.PATH, ...env },
  });
  async function ask(what: ClusterStart | "state"): Promise<ClusterAnswer> {
    const answer = once(child, "message", { signal: AbortSignal.timeout(300_000) });
    child.send(what);
    return (await answer)[0] as ClusterAnswer;
  }
  const { url } = await ask(size);
  return { url, state: () => ask("state"), stop: () => child.kill("SIGKILL") };
}

export type Cluster = Awaited<ReturnType<typeof startCluster>>;
