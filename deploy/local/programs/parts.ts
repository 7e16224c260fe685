import type { Running } from "../processes/running.ts";
import { type Supervised, supervise } from "../processes/supervise.ts";
import type { Display } from "../terminal/display.ts";

/** How long an orderly stop may take; what still runs then is killed. */
const STOP_MS = 9_000;

export type Kind = "gateway" | "service" | "nats" | "postgres";

/** The supervised processes of a platform: each is started by `start`, all are stopped together. */
export function createParts(display: Pick<Display, "begin" | "ready" | "line">) {
  const stopping = new AbortController();
  // In the order in which they are stopped.
  const parts: Record<Kind, Supervised<Running>[]> = { gateway: [], service: [], nats: [], postgres: [] };

  function kill(): void {
    stopping.abort();
    for (const part of Object.values(parts).flat()) part.kill();
  }

  return {
    /** Aborts as soon as the platform is being stopped. */
    stopping: stopping.signal,
    /** Starts a process and returns it once it is ready; from then on it is restarted whenever it exits. */
    async start<R extends Running>(
      kind: Kind,
      name: string,
      start: (signal: AbortSignal) => Promise<R>,
    ): Promise<R> {
      if (stopping.signal.aborted) throw new Error("stopped");
      display.begin(name);
      const part = supervise({ name, start }, display.line);
      parts[kind].push(part);
      const running = await part.ready;
      display.ready(name);
      return running;
    },
    /** Stops all, in order of their kinds; kills what still runs after 9 s. */
    async stop(): Promise<void> {
      stopping.abort();
      const killer = setTimeout(kill, STOP_MS);
      for (const group of Object.values(parts)) await Promise.all(group.map((part) => part.stop()));
      clearTimeout(killer);
    },
    kill,
  };
}
