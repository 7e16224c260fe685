import {
  EnvironmentDeletedSchema,
  ProjectDeletedSchema,
} from "../../../proto/gen/berth/deployer/v1/events_pb.ts";
import { emit } from "../../kit/events/outbox.ts";
import type { Tx } from "../../kit/postgres/db.ts";
import { deleteServices } from "./delete-services.ts";
import { markEnvironments, markProject, pruneProject } from "./deletion-sql.ts";

/**
 * Marks a project as being deleted with everything in it, and emits the events. The newest backup of each addon is kept for
 * `backupDays`. Returns false when it was deleted before. Throws 409 impact_confirmation_required when something in it is live
 * and the impact was not confirmed.
 */
export async function deleteProject(
  tx: Tx,
  project: { accountId: string; id: string; name: string },
  deletion: { confirmed: boolean | undefined; byUserId: string; backupDays: number },
): Promise<boolean> {
  const { accountId, id: projectId, name } = project;
  const { confirmed, byUserId, backupDays } = deletion;
  if ((await markProject(tx, projectId)) === 0) return false;
  const environments = await markEnvironments(tx, "project_id", projectId);
  const path = { accountId, projectId };
  const services = await deleteServices(tx, "project_id", projectId, confirmed, { ...path, backupDays });
  for (const { id: environmentId, name } of environments) {
    const event = { ...path, environmentId, name, withProject: true };
    await emit(tx, EnvironmentDeletedSchema, accountId, event);
  }
  await emit(tx, ProjectDeletedSchema, accountId, { ...path, name, byUserId, services });
  await pruneProject(tx, projectId);
  return true;
}
