import { sizes } from "../../kit/sizes.ts";
import { mostReplicas, type StoredConfig } from "../terms/stored-config.ts";

type Scale = Pick<StoredConfig, "replicas" | "size" | "autoscaling">;

/** A web, worker or cron service of an account, as far as it depends on it whether it is stopped. */
export type Candidate = Scale & {
  id: string;
  type: string;
  /** Whether it has a release. */
  live: boolean;
  suspended: boolean;
};

/** What the allowance pays: one replica of the smallest size (docs/billing.md#usage). */
export function isWithinAllowance(scale: Scale): boolean {
  return scale.size === "nano" && mostReplicas(scale) <= 1;
}

/** Returns the services of a suspended account that are stopped, largest cost first (docs/billing.md#after-a-plan-ends). Pure. */
export function toSuspend(services: Candidate[]): string[] {
  const kept = new Set<string>();
  const costing = services.filter(({ replicas }) => replicas !== 0);
  for (const ofType of Map.groupBy(costing, ({ type }) => type).values()) {
    const [first] = ofType
      .filter(isWithinAllowance)
      // What runs goes on; of equals the oldest, and ids sort by creation.
      .sort(
        (a, b) =>
          Number(a.suspended) - Number(b.suspended) ||
          Number(b.live) - Number(a.live) ||
          (a.id < b.id ? -1 : 1),
      );
    if (first) kept.add(first.id);
  }
  return costing
    .filter(({ id }) => !kept.has(id))
    .sort((a, b) => costOf(b) - costOf(a) || (a.id < b.id ? 1 : -1))
    .map(({ id }) => id);
}

/** Returns a number that grows with what a service costs: a vCPU costs as much as two GiB. */
function costOf(scale: Scale): number {
  const { cpu, memory } = sizes[scale.size];
  return mostReplicas(scale) * (2 * cpu + (memory * 1_000) / 1_024);
}
