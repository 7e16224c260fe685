import { timestampNow } from "@bufbuild/protobuf/wkt";
import {
  DeploymentAppliedSchema,
  ReleaseUnhealthySchema,
} from "../../../proto/gen/berth/deployer/v1/events_pb.ts";
import { emit } from "../../kit/events/outbox.ts";
import type { Logger } from "../../kit/log.ts";
import { type Pool, type Tx, transaction } from "../../kit/postgres/db.ts";
import { failDeployment } from "../deployments/fail-deployment.ts";
import { addWarning, beginApply, markApplied, setWarnings } from "../deployments/transitions-sql.ts";
import { sealDigests } from "../deployments/variable-digests.ts";
import type { AccountImages } from "../images/account-images.ts";
import type { Runtime } from "../runtime/port.ts";
import type { Secrets } from "../secrets.ts";
import { newNotice } from "../terms/notice.ts";
import { RuntimeRefusal } from "../terms/runtime-refusal.ts";
import type { EarlyVariables } from "../variables/early-variables.ts";
import {
  type ResolvedVariables,
  type ResolveVariables,
  VariablesUnavailable,
} from "../variables/variables-client.ts";
import { emitUnresolved, recordUnresolved } from "./dangling.ts";
import { whileLeased } from "./lease-lock.ts";
import { type PinDeps, pinImage } from "./pin-image.ts";
import * as sql from "./sql.ts";
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

/** A release with its variables and their revision. */
type Resolved = { row: sql.ReleaseRow; variables: ResolvedVariables; revision: number };

/**
 * Applies a deployment (docs/deployments.md#states). Returns `false` when nothing is left to do: the deployment is not
 * the newest, has ended, or belongs to another process.
 */
export async function applyDeployment(
  deps: ApplyDeps,
  serviceId: string,
  deploymentId: string,
): Promise<boolean> {
  const { pool, log } = deps;
  // The row before the variables: a change that is marked after the row was read is compared again.
  const row = await sql.findRelease(pool, deploymentId);
  if (!row || (row.status !== "queued" && row.status !== "built")) return false;
  const early = await deps.early.take(row);
  const [begun, variables] = await Promise.all([
    // What was asked for early is there for the first try alone: another one counts from then on.
    early === undefined ? beginApply(pool, deploymentId) : undefined,
    early ?? resolveOrWarn(deps, serviceId, deploymentId),
  ]);
  if (begun === 0) return false;
  if (await waitsForAddons(deps, deploymentId, variables)) return true;
  const applied = await applyPinned(deps, row, variables).catch(async (error) => {
    if (!(error instanceof RuntimeRefusal)) throw error;
    await failDeployment(pool, log, deploymentId, newNotice("apply", error.code, error.message));
    return undefined;
  });
  return applied !== false;
}

async function applyPinned(
  deps: ApplyDeps,
  queued: sql.ReleaseRow,
  variables: ResolvedVariables,
): Promise<boolean> {
  const row = await pinImage(deps, queued);
  if (row === undefined) return false;
  const revision = await assignRevision(deps, row, variables);
  if (revision === undefined) return false;
  await deps.runtime.learnPlan?.(row.environmentId);
  const applied = await applyLocked(deps, { row, variables, revision });
  const { deploymentId, version } = row;
  if (applied) deps.log.info({ deploymentId, version, revision }, "applied");
  return applied;
}

function applyLocked(deps: ApplyDeps, { row, variables, revision }: Resolved): Promise<boolean> {
  const { serviceId, deploymentId } = row;
  return whileLeased(deps, serviceId, async (tx, service) => {
    requireRevision(service, revision);
    const { accountId, version } = row;
    const moving = markApplied(tx, deploymentId);
    const event = { accountId, serviceId, deploymentId, version };
    const emitting = emit(tx, DeploymentAppliedSchema, accountId, event);
    await recordApplied(deps, tx, { row, variables, revision }, moving, emitting);
    if (!(await moving)) throw new Ended();
    // Last: what the runtime took cannot be rolled back, but after a crash it is applied once more.
    await applyToRuntime(deps, tx, { row, variables, revision });
    return true;
  }).catch((error) => {
    if (error instanceof Ended) return false;
    throw error;
  });
}

/** Rolls the transaction back: the deployment is not the newest, or has ended. */
class Ended extends Error {}

/** Applies the live release again, with its current variables. Returns `false` when nothing is live. */
export async function reapplyLive(deps: ApplyDeps, serviceId: string): Promise<boolean> {
  const row = await sql.findLiveRelease(deps.pool, serviceId);
  return row ? reapply(deps, row, await deps.resolve(serviceId)) : false;
}

/**
 * Compares the current variables with the applied ones and applies the live release again when they differ and
 * the service takes changes by itself. Returns `false` when nothing is live.
 */
export async function compareVariables(deps: ApplyDeps, serviceId: string): Promise<boolean> {
  const row = await sql.findLiveRelease(deps.pool, serviceId);
  if (!row) return false;
  const variables = await deps.resolve(serviceId);
  const changed = fingerprintOf(row, variables) !== row.fingerprint || row.revision !== row.appliedRevision;
  if (changed && row.autoApply) return reapply(deps, row, variables);
  await transaction(deps.pool, async (tx) => {
    await emitUnresolved(tx, row, variables, await recordUnresolved(tx, serviceId, variables));
    await sql.recordComparison(tx, serviceId, changed, row.dirtyAt);
  });
  return true;
}

async function reapply(deps: ApplyDeps, row: sql.ReleaseRow, variables: ResolvedVariables): Promise<boolean> {
  const { pool, log } = deps;
  const { serviceId, deploymentId, version } = row;
  const revision = await assignRevision(deps, row, variables);
  if (revision === undefined) return false;
  await deps.runtime.learnPlan?.(row.environmentId);
  return whileLeased(deps, serviceId, async (tx, service) => {
    requireRevision(service, revision);
    if (service.liveVersion !== version) return false;
    await recordApplied(deps, tx, { row, variables, revision });
    await applyToRuntime(deps, tx, { row, variables, revision });
    log.info({ deploymentId, version, revision }, "applied again");
    return true;
  }).catch(async (error) => {
    if (!(error instanceof RuntimeRefusal)) throw error;
    log.warn({ deploymentId, code: error.code }, "the live release cannot be applied again");
    await recordUnappliable(pool, row, error);
    return false;
  });
}

/** Records that the live release cannot run, and says so once. */
function recordUnappliable(
  pool: Pool,
  row: sql.ReleaseRow,
  { code, message }: RuntimeRefusal,
): Promise<void> {
  const { serviceId, version } = row;
  return transaction(pool, async (tx) => {
    const recorded = await sql.recordUnappliable(tx, serviceId, message);
    if (!recorded) return;
    await addWarning(tx, serviceId, version, newNotice("rollout", code, message));
    const { accountId } = recorded;
    const event = { accountId, serviceId, version, code, at: timestampNow() };
    await emit(tx, ReleaseUnhealthySchema, accountId, event);
  });
}

async function applyToRuntime(deps: ApplyDeps, tx: Tx, { row, variables, revision }: Resolved) {
  await deps.images.requireToRun(tx, row.accountId, row.artifact);
  await deps.runtime.apply(toRelease(row, variables, revision, deps.minReadySeconds));
}

/** Records the release that is about to run, in one round trip with `others`, which are statements of `tx` too. */
async function recordApplied(
  { secrets }: ApplyDeps,
  tx: Tx,
  { row, variables, revision }: Resolved,
  ...others: Promise<unknown>[]
) {
  const release = { ...row, revision };
  const warns = row.hasVariableWarnings || variables.warnings.length > 0;
  const [unresolved] = await Promise.all([
    recordUnresolved(tx, row.serviceId, variables),
    sql.recordRelease(tx, release, sealDigests(secrets, row.serviceId, variables.values)),
    warns && setWarnings(tx, row.deploymentId, "resolve", variables.warnings),
    ...others,
  ]);
  await emitUnresolved(tx, release, variables, unresolved);
}

/**
 * Returns the revision of these variables, the same while they do not change; undefined when the lease was lost. Throws
 * when the row is outdated. Committed before the runtime sees it.
 */
async function assignRevision(
  { pool, owner }: ApplyDeps,
  row: sql.ReleaseRow,
  variables: ResolvedVariables,
): Promise<number | undefined> {
  const fingerprint = fingerprintOf(row, variables);
  if (row.fingerprint === fingerprint) return row.revision;
  const revision = await sql.assignRevision(pool, owner, row.serviceId, fingerprint);
  // One that is more than the next counts a move: the row has the former address.
  if (revision !== undefined) requireRevision({ revision }, row.revision + 1);
  return revision;
}

/** Throws when a newer revision was assigned meanwhile: by another process that held the lease, or as the service moved. */
function requireRevision(service: sql.LeasedService, revision: number): void {
  if (service.revision !== revision) throw new Error("the variables changed while the release was prepared");
}

async function resolveOrWarn(
  { pool, resolve }: ApplyDeps,
  serviceId: string,
  deploymentId: string,
): Promise<ResolvedVariables> {
  return resolve(serviceId).catch(async (error) => {
    if (error instanceof VariablesUnavailable) {
      const warning = newNotice("resolve", "variables_unavailable", error.message);
      await setWarnings(pool, deploymentId, "resolve", [warning]);
    }
    throw error;
  });
}

/** Returns whether the deployment waits for addons that are still being created: it is planned again with them. */
async function waitsForAddons(
  { pool, owner }: ApplyDeps,
  deploymentId: string,
  { unpublished }: ResolvedVariables,
): Promise<boolean> {
  if (unpublished.length === 0) return false;
  const addons = await sql.awaitAddons(pool, owner, deploymentId, unpublished);
  if (!addons) return false;
  const message = `Waiting for addons that the variables refer to and that are still being created: ${addons.join(", ")}.`;
  const warning = newNotice("resolve", "waiting_for_addon", message);
  await setWarnings(pool, deploymentId, "resolve", [warning]);
  return true;
}
