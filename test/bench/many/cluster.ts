import { fork } from "node:child_process";
import { on } from "node:events";
import { join } from "node:path";
import type { Call } from "../../support/kube-api/server.ts";
import { PATIENCE_MS } from "./figures.ts";

export type ClusterStart = { environments: number; services: number };

/** What the process of the cluster is asked for, and what it answers once that is done. */
export type ClusterOrders = {
  start: {
    asked: ClusterStart;
    answer: { url: string; kubeconfig: string; kilobytes: Record<string, number> };
  };
  /** `calls` has those since number `since`, of `count`. `moving`: how many pods come or go. */
  state: {
    asked: { since?: number };
    answer: { count: number; calls: Call[]; watches: number; moving: number };
  };
  /** The containers of so many pods end and are started again, one every `everyMs`. */
  restart: { asked: { pods: number; everyMs: number }; answer: { pods: number } };
  /** One node vanishes, and others take over its pods. */
  "lose-node": { asked: object; answer: { pods: number } };
};
export type ClusterOrder = {
  [Do in keyof ClusterOrders]: { do: Do } & ClusterOrders[Do]["asked"];
}[keyof ClusterOrders];

/**
 * Starts a process with a simulated API server and as many environments with running services, put there by a deployer
 * with this environment: what it uses is not counted.
 */
export async function startCluster(env: Record<string, string>, size: ClusterStart) {
  const child = fork(join(import.meta.dirname, "cluster-main.ts"), {
    env: { PATH: process.env.PATH, ...env },
  });
  let orders = 0;
  async function ask<Do extends keyof ClusterOrders>(
    what: Do,
    asked: ClusterOrders[Do]["asked"],
  ): Promise<ClusterOrders[Do]["answer"]> {
    const order = ++orders;
    const answers = on(child, "message", { signal: AbortSignal.timeout(PATIENCE_MS) });
    child.send({ order, do: what, ...asked });
    for await (const [answer] of answers) if (answer.order === order) return answer;
    throw new Error("the simulated cluster has ended");
  }
  const started = await ask("start", size);
  return {
    ...started,
    state: (since?: number) => ask("state", { since }),
    restart: (pods: number, everyMs: number) => ask("restart", { pods, everyMs }),
    loseNode: () => ask("lose-node", {}),
    stop: () => child.kill("SIGKILL"),
  };
}

export type Cluster = Awaited<ReturnType<typeof startCluster>>;
