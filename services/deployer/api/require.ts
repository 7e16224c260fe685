import type { Db } from "../../kit/postgres/db.ts";
import { conflict, invalid, notFound } from "../../kit/rpc/errors.ts";
import { isDeployable } from "../catalog/service-config.ts";
import { findService, lockService, type ServicePath } from "../catalog/services-sql.ts";
import { findEnvironment, findProject } from "../catalog/sql.ts";
import { findDeployment } from "../deployments/sql.ts";

/** The project, or 404. */
export async function requireProject(db: Db, accountId: string, projectId: string) {
  const project = await findProject(db, accountId, projectId);
  if (!project) throw notFound("project");
  return project;
}

/** The environment, or 404 naming the part of the path that does not exist. */
export async function requireEnvironment(
  db: Db,
  path: { accountId: string; projectId: string; environmentId: string },
) {
  const { accountId, projectId, environmentId } = path;
  const environment = await findEnvironment(db, accountId, projectId, environmentId);
  if (environment) return environment;
  await requireProject(db, accountId, projectId);
  throw notFound("environment");
}

/** The service, or 404 naming the part of the path that does not exist. */
export async function requireService(db: Db, path: ServicePath) {
  const service = await findService(db, path);
  if (service) return service;
  await requireEnvironment(db, path);
  throw notFound("service");
}

/** The deployment with this version, or 404 naming the part of the path that does not exist. */
export async function requireDeployment(db: Db, path: ServicePath & { version: number }) {
  const { id } = await requireService(db, path);
  const deployment = await findDeployment(db, id, path.version);
  if (!deployment) throw notFound("version");
  return deployment;
}

/** The service, locked until the transaction ends, or 404. */
export async function requireLocked(tx: Db, path: ServicePath) {
  const service = await lockService(tx, path);
  if (service) return service;
  await requireEnvironment(tx, path);
  throw notFound("service");
}

/** 422 for what only web and worker have. */
export function refuseAddon(type: string, what = "deployed"): void {
  if (!isDeployable(type))
    throw invalid("service", "not_deployable", `A ${type} addon cannot be ${what}; web and worker can.`);
}

/** 409 for what a service can do once it is off the canvas. */
export function serviceStaged() {
  return conflict("service_staged", "The service is staged: POST to the environment's apply first.");
}

/** 409 for changes to a service that is being deleted. */
export function serviceDeleting() {
  return conflict("service_deleting", "The service is being deleted.");
}
