import { create } from "@bufbuild/protobuf";
import { createValidator } from "@bufbuild/protovalidate";
import { ServiceConfigSchema } from "../../../../proto/gen/berth/deployer/v1/catalog_pb.ts";
import type { EntitlementsOf } from "../../../kit/plans.ts";
import type { Db } from "../../../kit/postgres/db.ts";
import { conflict, invalid, isRefusal, notFound, refuse } from "../../../kit/rpc/refusals.ts";
import { findEntitlements } from "../../accounts/provisioning.ts";
import { requireScale } from "../../accounts/quotas.ts";
import { serviceDeleting } from "../../projects/require.ts";
import { mergeConfig } from "../../projects/service-config.ts";
import type { LockedService } from "../../projects/services-sql.ts";
import type { StoredConfig } from "../../terms/stored-config.ts";
import { findRetainedVersion, type RetainedVersion } from "../retention-sql.ts";

/**
 * Returns the version that a rollback deploys. Throws in the order of docs/deployments.md#rollback: 404 → 409
 * version_never_live, version_is_current → 403 quota_exceeded with `limit` → 422 configuration_frozen,
 * image_not_restorable.
 */
export async function findRestorable(
  db: Db,
  entitlementsOf: EntitlementsOf,
  service: LockedService,
  version: number,
): Promise<RetainedVersion> {
  const found = await findRetainedVersion(db, service.id, version);
  if (!found) throw notFound("version");
  if (service.deleting) throw serviceDeleting();
  if (!found.wasLive)
    throw conflict(
      "version_never_live",
      `Version ${version} was never live, so there is nothing to roll back to.`,
    );
  if (found.current) throw conflict("version_is_current", `Version ${version} is the current release.`);
  const { historyDepth: limit } = await findEntitlements(db, entitlementsOf, service.accountId);
  if (found.newer >= limit)
    throw refuse(
      403,
      "quota_exceeded",
      `The plan retains the ${limit} newest versions that were live; version ${version} is older.`,
      { context: { limit } },
    );
  await requireScale(db, entitlementsOf, service, found.config);
  if (isFrozen(service.type, found.config))
    throw invalid(
      "version",
      "configuration_frozen",
      `The configuration of version ${version} is no longer valid.`,
    );
  if (!found.artifact || found.expired)
    throw invalid("version", "image_not_restorable", `What version ${version} ran has been removed.`);
  return found;
}

const validator = createValidator();

/** Whether the current rules refuse a configuration that was accepted once. */
function isFrozen(type: string, config: StoredConfig): boolean {
  const message = create(ServiceConfigSchema, config);
  if (validator.validate(ServiceConfigSchema, message).kind !== "valid") return true;
  try {
    mergeConfig(type, undefined, message);
    return false;
  } catch (error) {
    if (isRefusal(error)) return true;
    throw error;
  }
}
