import {
  EnvironmentDeletedSchema,
  ProjectDeletedSchema,
} from "../../../proto/gen/berth/deployer/v1/events_pb.ts";
import { emitAll, eventOf } from "../../kit/events/outbox.ts";
import type { Tx } from "../../kit/postgres/db.ts";
import { deleteServices } from "./delete-services.ts";
import { markEnvironments, markProjects, pruneProjects } from "./deletion-sql.ts";

/**
 * Marks projects as being deleted with everything in them, and emits the events; in as many statements for all projects of an
 * account as for one. The newest backup of each addon is kept for `backupDays`. Returns how many were not deleted before.
 * Throws 409 impact_confirmation_required when something in them is live and the impact was not confirmed.
 */
export async function deleteProjects(
  tx: Tx,
  accountId: string,
  projectIds: string[],
  deletion: { confirmed: boolean | undefined; byUserId: string; backupDays: number },
): Promise<number> {
  const { confirmed, byUserId, backupDays } = deletion;
  const projects = await markProjects(tx, projectIds);
  if (projects.length === 0) return 0;
  const ids = projects.map(({ id }) => id);
  const environments = await markEnvironments(tx, "project_id", ids);
  const within = { accountId, backupDays };
  const deleted = await deleteServices(tx, "project_id", ids, confirmed, within);
  const services = new Map(ids.map((id) => [id, 0]));
  for (const { projectId } of deleted) services.set(projectId, services.get(projectId)! + 1);
  await emitAll(tx, [
    ...environments.map(({ id: environmentId, ...environment }) =>
      eventOf(EnvironmentDeletedSchema, accountId, {
        ...{ ...environment, accountId, environmentId, withProject: true },
      }),
    ),
    ...projects.map(({ id: projectId, name }) =>
      eventOf(ProjectDeletedSchema, accountId, {
        ...{ accountId, projectId, name, byUserId, services: services.get(projectId)! },
      }),
    ),
  ]);
  await pruneProjects(tx, ids);
  return projects.length;
}
