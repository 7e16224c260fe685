import { randomUUID } from "node:crypto";
import type { ServerResponse } from "node:http";
import { type Counter, LATENCY_BOUNDS } from "../../../terms/measurement.ts";

/** The requests for one host, by status and latency. */
export type Traffic = Counter & { statuses: number[]; latencies: number[] };

/** Counts the requests for each host that are answered, in bounded space. */
export function createTraffic() {
  const hosts = new Map<string, Traffic>();
  return {
    /** Counts requests for a host from now on, unless it does so already. */
    begin(label: string): void {
      if (hosts.has(label)) return;
      const statuses = new Array<number>(4).fill(0);
      const latencies = new Array<number>(LATENCY_BOUNDS.length + 1).fill(0);
      hosts.set(label, { source: `requests ${randomUUID()}`, since: Date.now(), statuses, latencies });
    },

    forget: (label: string) => void hosts.delete(label),

    /** Counts a request once its response has ended; one that its client gave up before a response, not at all. */
    count(label: string, res: ServerResponse): void {
      const host = hosts.get(label);
      const beganAt = performance.now();
      res.once("close", () => {
        if (!host || !res.headersSent) return;
        const status = Math.floor(res.statusCode / 100) - 2;
        const ms = performance.now() - beganAt;
        const found = LATENCY_BOUNDS.findIndex((bound) => ms <= bound);
        host.statuses[status]!++;
        host.latencies[found < 0 ? LATENCY_BOUNDS.length : found]!++;
      });
    },

    of: (label: string): Traffic | undefined => structuredClone(hosts.get(label)),
  };
}
