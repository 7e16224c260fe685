import { deployments } from "./deployments.ts";
import type { Fence } from "./fences.ts";
import { images } from "./images.ts";
import { projects } from "./projects.ts";
import { reconcile } from "./reconcile.ts";
import { releases } from "./releases.ts";
import { retention } from "./retention.ts";
import type { Statements } from "./rows.ts";
import { transitions } from "./transitions.ts";
import { work } from "./work.ts";

/**
 * Returns the deployer's statements as functions under the same names, for the simulated database and without the
 * `removed` fences. Each does what its SQL does, in its order; testing/mirror.test.ts compares the two.
 */
export function mirror(removed: ReadonlySet<Fence> = new Set()): Statements {
  const without = (fence: Fence) => removed.has(fence);
  return {
    ...work(without),
    ...reconcile(),
    ...releases(without),
    ...transitions(without),
    ...deployments(without),
    ...retention(without),
    ...images(),
    ...projects(without),
  };
}

/** Statements on what is not modelled: accounts, logs, usage, runs, domains and addons. */
export const NOT_MODELLED: Statements = {
  account_provisioned: () => [{ id: "acc" }],
  account_tier: () => [],
  log_drop: () => 0,
  log_append: () => 1,
  runs_left: () => [],
  domain_wake_claims_on: () => 0,
  usage_close: () => [],
  usage_heartbeat: () => [],
  addon_compare: () => 0,
  deployment_awaiting: () => [],
  outbox_insert(q, _ids: string[], subjects: string[], payloads: Uint8Array[]) {
    for (const [index, subject] of subjects.entries()) {
      const { buffer, byteOffset, length } = payloads[index]!;
      const text = Buffer.from(buffer, byteOffset, length).toString("latin1");
      q.emit({ kind: subject.split(".")[3]!, deploymentId: /dep_[0-9a-z]{26}/.exec(text)?.[0] });
    }
    return subjects.length;
  },
};
