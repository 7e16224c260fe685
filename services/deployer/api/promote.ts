import { ServiceRenamedSchema } from "../../../proto/gen/berth/deployer/v1/events_pb.ts";
import { emit } from "../../kit/events/outbox.ts";
import type { Tx } from "../../kit/postgres/db.ts";
import { conflict, invalid } from "../../kit/rpc/refusals.ts";
import { restoreRunning } from "../backups/refusals.ts";
import { findRestoring } from "../backups/restores-sql.ts";
import { requireLocked, requireService, serviceDeleting } from "../projects/require.ts";
import * as services from "../projects/services-sql.ts";
import { lockNames } from "../projects/sql.ts";
import { isDeployable } from "../terms/services.ts";

/**
 * Gives an addon the name of another one of its environment, which gets its name: whatever is connected to that name is
 * connected to this addon from then on. Returns both ids. Throws 404, 409 and 422 (docs/addons.md#promotion).
 */
export async function promote(
  tx: Tx,
  path: services.ServicePath,
  over: string,
): Promise<{ id: string; former: string }> {
  await lockNames(tx, path);
  const promoted = await requireReady(tx, path, "service");
  if (over === path.service)
    throw invalid("over", "same_service", "Name the other addon, whose name this one takes.");
  const former = await requireReady(tx, { ...path, service: over }, "over");
  if (former.type !== promoted.type)
    throw invalid("over", "other_type", `${over} is of the type ${former.type}, not ${promoted.type}.`);
  await services.setNameAside(tx, former.id);
  const taken = await services.renameService(tx, promoted.id, former.name);
  const given = await services.renameService(tx, former.id, promoted.name);
  const { accountId, projectId, environmentId } = path;
  const common = { accountId, projectId, environmentId, type: promoted.type };
  const successor = { serviceId: promoted.id, name: former.name, namedAt: taken!.namedAt };
  await emit(tx, ServiceRenamedSchema, accountId, { ...common, ...successor });
  // Whoever hears of this one first knows at once who has its name: connections never lead nowhere.
  await emit(tx, ServiceRenamedSchema, accountId, {
    ...{ ...common, serviceId: former.id, name: promoted.name, namedAt: given!.namedAt },
    successor,
  });
  return { id: promoted.id, former: former.id };
}

async function requireReady(tx: Tx, path: services.ServicePath, field: string) {
  const { id, name, type, deleting } = await requireLocked(tx, path);
  if (isDeployable(type))
    throw invalid(field, "not_addon", `A ${type} service is renamed by PATCH; only addons are promoted.`);
  if (deleting) throw serviceDeleting();
  const { addonState } = await requireService(tx, path);
  if (addonState !== "ready") throw conflict("service_not_ready", `The addon ${name} is not ready yet.`);
  if (await findRestoring(tx, id)) throw restoreRunning();
  return { id, name, type };
}
