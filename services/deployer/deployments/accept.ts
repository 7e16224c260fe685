import {
  DeploymentQueuedSchema,
  DeploymentSupersededSchema,
} from "../../../proto/gen/berth/deployer/v1/events_pb.ts";
import { audit } from "../../kit/events/audit.ts";
import { emit } from "../../kit/events/outbox.ts";
import { newId } from "../../kit/ids.ts";
import type { Tx } from "../../kit/postgres/db.ts";
import type { Caller } from "../../kit/rpc/caller-token.ts";
import { requireProvisioned } from "../accounts/provisioning.ts";
import type { LockedService } from "../catalog/services-sql.ts";
import { enqueue } from "../reconcile/queue/sql.ts";
import { imageArtifact } from "../runtime/port.ts";
import { insertRestored, type RetainedVersion } from "./retention-sql.ts";
import { type DeploymentRow, insertDeployment, supersede, takeVersion } from "./sql.ts";

/** What a deployment runs: an artifact of the runtime, source to build, or what an earlier version ran. */
export type DeploymentInput =
  | { artifact: string; image?: string }
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
): Promise<DeploymentRow> {
  const { accountId, id: serviceId } = service;
  await requireProvisioned(tx, accountId);
  for (const { id, version } of await supersede(tx, serviceId))
    await emit(tx, DeploymentSupersededSchema, accountId, {
      accountId,
      serviceId,
      deploymentId: id,
      version,
    });
  const version = await takeVersion(tx, serviceId);
  const id = newId("dep");
  const restored = "restores" in input ? input.restores : undefined;
  const deployment = restored
    ? await insertRestored(tx, { id, version, from: restored.deploymentId })
    : await insertDeployment(tx, {
        id,
        serviceId,
        version,
        config: service.config,
        source: service.source,
        ...input,
        ...(!("artifact" in input) && { buildId: newId("bld") }),
      });
  const rollbackOf = restored?.version;
  const event = { accountId, serviceId, deploymentId: deployment.id, version, rollbackOf };
  await emit(tx, DeploymentQueuedSchema, accountId, event);
  const metadata = {
    service: service.name,
    version: String(version),
    ...(restored && { restoredVersion: String(restored.version) }),
  };
  const target = deployment.id;
  await audit(tx, by, { service: "deployer", accountId, action: "deployment.create", target, metadata });
  await enqueue(tx, [serviceId]);
  return deployment;
}

/** Returns what a staged service deploys when it is applied: what was staged, else its source. */
export function stagedInput({ toDeploy, source }: LockedService): DeploymentInput | undefined {
  const { archiveRef, archiveDigest, image = source.git ? undefined : source.image } = toDeploy;
  if (archiveRef) return { archiveRef, archiveDigest };
  if (image) return { artifact: imageArtifact(image), image };
  return source.git && { branch: source.git.branch };
}
