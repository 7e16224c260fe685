import type { ReleaseVariables } from "../../../../proto/gen/berth/variables/v1/internal_pb.ts";
import type { Logger } from "../../../kit/log.ts";
import { transaction } from "../../../kit/postgres/db.ts";
import { beginApply, markApplied, setWarnings } from "../../deployments/transitions-sql.ts";
import type { AccountImages } from "../../images/account-images.ts";
import type { Runtime } from "../../runtime/port.ts";
import type { Secrets } from "../../secrets.ts";
import { newNotice } from "../../terms/notice.ts";
import { RuntimeRefusal } from "../../terms/runtime-refusal.ts";
import type { EarlyVariables } from "../../variables/early-variables.ts";
import { type ResolveVariables, VariablesUnavailable } from "../../variables/variables-client.ts";
import { whileLeased } from "../lease-lock.ts";
import * as sql from "../sql.ts";
import { type ApplyMode, compareWithLive, decideApply } from "./apply-decision.ts";
import { emitUnresolved, recordUnresolved } from "./dangling.ts";
import { type PinDeps, pinImage } from "./pin-image.ts";
import { type PreparedRelease, recordApplied, recordRefused } from "./record-applied.ts";
import { fingerprintOf, toRelease } from "./to-release.ts";

export type ApplyDeps = PinDeps & {
  runtime: Runtime;
  resolve: ResolveVariables;
  early: EarlyVariables;
  secrets: Secrets;
  images: AccountImages;
  log: Logger;
  /** Owner of this process's leases. */
  owner: number;
  /** For services whose configuration has none: 1 s on one machine, 10 s on a cluster. */
  minReadySeconds: number;
};

/**
 * Applies a deployment (docs/deployments.md#states). Returns `false` when nothing is left to do: the deployment is not
 * the newest, has ended, or belongs to another process.
 */
export async function applyDeployment(
  deps: ApplyDeps,
  serviceId: string,
  deploymentId: string,
): Promise<boolean> {
  const { pool } = deps;
  // The row before the variables: a change that is marked after the row was read is compared again.
  const row = await sql.findRelease(pool, deploymentId);
  if (!row || (row.status !== "queued" && row.status !== "built")) return false;
  const early = await deps.early.take(row);
  const [begun, variables] = await Promise.all([
    // Variables that were asked for early are there for the first try alone: another one counts from then on.
    early === undefined ? beginApply(pool, deploymentId) : undefined,
    early ?? resolveOrWarn(deps, serviceId, deploymentId),
  ]);
  if (begun === 0) return false;
  if (await waitsForAddons(deps, deploymentId, variables)) return true;
  return apply(deps, "deploy", row, variables);
}

/** Applies the live release again, with its current variables. Returns `false` when nothing is live. */
export async function reapplyLive(deps: ApplyDeps, serviceId: string): Promise<boolean> {
  const row = await sql.findLiveRelease(deps.pool, serviceId);
  return row ? apply(deps, "reapply", row, await deps.resolve(serviceId)) : false;
}

/**
 * Compares the current variables with the applied ones and applies the live release again when they differ and
 * the service takes changes by itself. Returns `false` when nothing is live.
 */
export async function compareVariables(deps: ApplyDeps, serviceId: string): Promise<boolean> {
  const row = await sql.findLiveRelease(deps.pool, serviceId);
  if (!row) return false;
  const variables = await deps.resolve(serviceId);
  const comparison = compareWithLive(row, variables);
  if (comparison === "reapply") return apply(deps, "reapply", row, variables);
  await transaction(deps.pool, async (tx) => {
    await emitUnresolved(tx, row, variables, await recordUnresolved(tx, serviceId, variables));
    await sql.recordComparison(tx, serviceId, comparison === "pending", row.dirtyAt);
  });
  return true;
}

/** Prepares a release and applies it. Returns whether the service has to be planned again at once. */
async function apply(
  deps: ApplyDeps,
  mode: ApplyMode,
  found: sql.ReleaseRow,
  variables: ReleaseVariables,
): Promise<boolean> {
  try {
    const row = await pinImage(deps, found);
    const revision = row && (await assignRevision(deps, row, variables));
    if (row === undefined || revision === undefined) return false;
    await deps.runtime.learnPlan?.(row.environmentId);
    const applied = await applyLocked(deps, mode, { row, variables, revision });
    const { deploymentId, version } = row;
    const message = mode === "deploy" ? "applied" : "applied again";
    if (applied) deps.log.info({ deploymentId, version, revision }, message);
    return applied;
  } catch (error) {
    if (error instanceof RuntimeRefusal) return recordRefused(deps, mode, found, error);
    throw error;
  }
}

/** Applies a prepared release under the lock of its service, where nothing newer was applied or prepared meanwhile. */
function applyLocked(deps: ApplyDeps, mode: ApplyMode, release: PreparedRelease): Promise<boolean> {
  const { row, variables, revision } = release;
  const { serviceId, accountId, deploymentId, version } = row;
  return whileLeased(deps, serviceId, async (tx, service) => {
    const decision = decideApply(mode, service, { version, revision });
    if (decision === "retry") throw newerRevision();
    if (decision === "skip") return false;
    if (decision === "mark-applied" && !(await markApplied(tx, deploymentId))) return false;
    await recordApplied(tx, deps.secrets, mode, release);
    await deps.images.requireToRun(tx, accountId, row.artifact);
    // Last: what the runtime took cannot be rolled back, but after a crash it is applied once more.
    await deps.runtime.apply(toRelease(row, variables, revision, deps.minReadySeconds));
    return true;
  });
}

/**
 * Returns the revision of these variables, the same while they do not change; undefined when the lease was lost. Throws
 * when the row is outdated. Committed before the runtime sees it.
 */
async function assignRevision(
  { pool, owner }: ApplyDeps,
  row: sql.ReleaseRow,
  variables: ReleaseVariables,
): Promise<number | undefined> {
  const fingerprint = fingerprintOf(row, variables);
  if (row.fingerprint === fingerprint) return row.revision;
  const revision = await sql.assignRevision(pool, owner, row.serviceId, fingerprint);
  // One that is more than the next counts a move: the row has the former address.
  if (revision !== undefined && revision !== row.revision + 1) throw newerRevision();
  return revision;
}

const newerRevision = () => new Error("the variables changed while the release was prepared");

export async function resolveOrWarn(
  { pool, resolve }: Pick<ApplyDeps, "pool" | "resolve">,
  serviceId: string,
  deploymentId: string,
): Promise<ReleaseVariables> {
  return resolve(serviceId).catch(async (error) => {
    if (error instanceof VariablesUnavailable) {
      const warning = newNotice("resolve", "variables_unavailable", error.message);
      await setWarnings(pool, deploymentId, "resolve", [warning]);
    }
    throw error;
  });
}

/** Returns whether the deployment waits for addons that are still being created: it is planned again with them. */
export async function waitsForAddons(
  { pool, owner }: Pick<ApplyDeps, "pool" | "owner">,
  deploymentId: string,
  { dangling }: ReleaseVariables,
): Promise<boolean> {
  const names = dangling.flatMap(({ connection }) => connection?.service ?? []);
  if (names.length === 0) return false;
  const addons = await sql.awaitAddons(pool, owner, deploymentId, names);
  if (!addons) return false;
  const message = `Waiting for addons that the variables refer to and that are still being created: ${addons.join(", ")}.`;
  const warning = newNotice("resolve", "waiting_for_addon", message);
  await setWarnings(pool, deploymentId, "resolve", [warning]);
  return true;
}
