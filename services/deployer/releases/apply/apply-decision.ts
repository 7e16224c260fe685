import type { ReleaseVariables } from "../../../../proto/gen/berth/variables/v1/internal_pb.ts";
import type { LeasedService, ReleaseRow } from "../sql.ts";
import { fingerprintOf } from "./to-release.ts";

/** `deploy` makes a queued or built deployment the live release; `reapply` applies the live release once more. */
export type ApplyMode = "deploy" | "reapply";

/**
 * What is done with a release once its service is locked: `mark-applied` moves its deployment to `applied` first, if it
 * still is the newest; `retry` prepares it once more; `skip` leaves it.
 */
export type ApplyDecision = "mark-applied" | "apply" | "retry" | "skip";

/**
 * Returns what is done with a release that was prepared before its service was locked; pure. A newer revision was
 * assigned by another process that held the lease meanwhile, or as the service moved to another address.
 */
export function decideApply(
  mode: ApplyMode,
  service: LeasedService,
  release: { version: number; revision: number },
): ApplyDecision {
  if (service.revision !== release.revision) return "retry";
  if (mode === "deploy") return "mark-applied";
  if (service.liveVersion !== release.version) return "skip";
  return "apply";
}

/** What a comparison of the applied variables with the current ones leads to. */
export type Comparison = "unchanged" | "reapply" | "pending";

/** Returns what changed variables, or another address, lead to for a live release; pure. */
export function compareWithLive(
  row: Pick<ReleaseRow, "config" | "fingerprint" | "revision" | "appliedRevision" | "autoApply">,
  variables: ReleaseVariables,
): Comparison {
  const changed = fingerprintOf(row, variables) !== row.fingerprint || row.revision !== row.appliedRevision;
  if (!changed) return "unchanged";
  return row.autoApply ? "reapply" : "pending";
}
