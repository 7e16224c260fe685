import {
  DeploymentQueuedSchema,
  DeploymentSupersededSchema,
} from "../../../../proto/gen/berth/deployer/v1/events_pb.ts";
import { auditRecord } from "../../../kit/events/audit.ts";
import { emitAll, eventOf } from "../../../kit/events/outbox.ts";
import { newId } from "../../../kit/ids.ts";
import type { Tx } from "../../../kit/postgres/db.ts";
import type { Caller } from "../../../kit/rpc/caller-token.ts";
import { provisionNow } from "../../accounts/provisioning.ts";
import { isProvisioned } from "../../accounts/sql.ts";
import { enqueue } from "../../due/sql.ts";
import type { LockedService } from "../../projects/services-sql.ts";
import { imageArtifact } from "../../terms/artifact.ts";
import type { EarlyVariables } from "../../variables/early-variables.ts";
import { insertRestored, type RetainedVersion } from "../retention-sql.ts";
import { type DeploymentRow, insertDeployment, supersede } from "../sql.ts";
import { scalingWarnings } from "./scaling-warnings.ts";

/** What a deployment runs: an artifact of the runtime, source to build, or what an earlier version ran. */
export type DeploymentInput =
  | { artifact: string; image?: string; builtVersion?: number }
  | { archiveRef: string; archiveDigest?: string }
  | { branch: string }
  | { restores: RetainedVersion };

/**
 * Accepts a deployment in a transaction that holds the service's lock. Assigns the next version, snapshots the current
 * configuration (for a rollback: the restored version's), and supersedes older deployments not yet applied
 * (docs/deployments.md#states). Throws 412 account_not_provisioned.
 */
export async function accept(
  tx: Tx,
  by: { caller: Caller; requestId: string },
  service: LockedService,
  input: DeploymentInput,
  early?: EarlyVariables,
): Promise<DeploymentRow> {
  const { accountId, id: serviceId, nextVersion: version } = service;
  const id = newId("dep");
  const restored = "restores" in input ? input.restores : undefined;
  const config = restored?.config ?? service.config;
  const warnings = scalingWarnings(service.liveScale, config);
  const { kind, id: actorId, tokenId } = by.caller;
  const createdBy = { kind, id: actorId, ...(tokenId && { tokenId }) };
  const rollbackOf = restored?.version;
  const event = { accountId, serviceId, deploymentId: id, version, rollbackOf };
  const metadata = {
    service: service.name,
    version: String(version),
    ...(restored && { restoredVersion: String(restored.version) }),
  };
  // All statements are in flight at once: the lock is held for one round trip instead of one for each, and `early.ask`
  // calls the variables service meanwhile.
  const accepting = Promise.all([
    isProvisioned(tx, accountId),
    supersede(tx, serviceId),
    restored
      ? insertRestored(tx, { id, serviceId, from: restored.deploymentId, warnings, createdBy })
      : insertDeployment(tx, {
          id,
          serviceId,
          config,
          warnings,
          createdBy,
          source: service.source,
          ...input,
          ...(!("artifact" in input) && { buildId: newId("bld") }),
        }),
    emitAll(tx, [
      eventOf(DeploymentQueuedSchema, accountId, event),
      auditRecord(by, { service: "deployer", accountId, action: "deployment.create", target: id, metadata }),
    ]),
    enqueue(tx, [serviceId]),
  ]);
  if (restored || "artifact" in input) early?.ask(id, service);
  const [provisioned, superseded, deployment] = await accepting;
  await emitAll(
    tx,
    superseded.map(({ id: deploymentId, version: older }) =>
      eventOf(DeploymentSupersededSchema, accountId, { accountId, serviceId, deploymentId, version: older }),
    ),
  );
  if (!provisioned) await provisionNow(tx, accountId);
  return deployment;
}

/** Returns what a staged service deploys when it is applied: what was staged, else its source. */
export function stagedInput({ toDeploy, source }: LockedService): DeploymentInput | undefined {
  const { archiveRef, archiveDigest, image = source.git ? undefined : source.image } = toDeploy;
  if (archiveRef) return { archiveRef, archiveDigest };
  if (image) return { artifact: imageArtifact(image), image };
  return source.git && { branch: source.git.branch };
}
