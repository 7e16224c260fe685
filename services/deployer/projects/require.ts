import type { Db } from "../../kit/postgres/db.ts";
import { conflict, invalid, notFound, refuse, unavailable } from "../../kit/rpc/refusals.ts";
import { isDeployable, isKnown } from "../terms/services.ts";
import { type EnvironmentPath, findService, lockService, type ServicePath } from "./services-sql.ts";
import * as sql from "./sql.ts";

/** Returns the project. Throws 404. */
export async function requireProject(db: Db, accountId: string, projectId: string) {
  const project = await sql.findProject(db, accountId, projectId);
  if (!project) throw notFound("project");
  return project;
}

/** Returns the environment. Throws 404 with the part of the path that does not exist. */
export async function requireEnvironment(db: Db, path: EnvironmentPath) {
  const { accountId, projectId, environmentId } = path;
  const environment = await sql.findEnvironment(db, accountId, projectId, environmentId);
  if (environment) return environment;
  await requireProject(db, accountId, projectId);
  throw notFound("environment");
}

/** Keeps an environment from being deleted until the transaction ends. Throws 404. */
export async function holdEnvironment(tx: Db, { accountId, projectId, environmentId }: EnvironmentPath) {
  if (!(await sql.holdEnvironment(tx, accountId, projectId, environmentId))) throw notFound("environment");
}

/** Returns the service. Throws 404 with the part of the path that does not exist. */
export async function requireService(db: Db, path: ServicePath) {
  const service = await findService(db, path);
  // Only of a service that is being deleted may the environment be, too.
  if (service && !service.deleting) return service;
  await requireEnvironment(db, path);
  if (!service) throw notFound("service");
  return service;
}

/**
 * Returns the service, locked until the transaction ends. Throws 404 with the part of the path that does not exist, and 503
 * for one that only a newer version can change.
 */
export async function requireLocked(tx: Db, path: ServicePath) {
  const service = await lockService(tx, path);
  if (service) {
    requireKnown(service.type);
    return service;
  }
  await requireEnvironment(tx, path);
  throw notFound("service");
}

/** Throws 503 for a type that only a newer version knows: the next request may reach a process of that. */
export function requireKnown(type: string): void {
  if (!isKnown(type))
    throw unavailable(
      "A newer version of Berth made this service, and an older one cannot change it. Try again once the upgrade is complete.",
    );
}

/** Throws 422 not_deployable for an addon. */
export function refuseAddon(type: string, what = "deployed"): void {
  if (!isDeployable(type))
    throw invalid(
      "service",
      "not_deployable",
      `A ${type} addon cannot be ${what}; only web, worker and cron services can.`,
    );
}

/** Throws 422 not_deployable for the new name of an addon. */
export function refuseAddonName(type: string): void {
  if (!isDeployable(type))
    throw invalid(
      "name",
      "not_deployable",
      `A ${type} addon cannot be renamed, as connections refer to it by its name; only web, worker and cron services can.`,
    );
}

/** Returns what who is no member gets: nobody is one, but a request may have been let in before. */
export function accountDeleted() {
  return refuse(403, "forbidden", "The account was deleted.");
}

/** Returns 409 service_staged. */
export function serviceStaged() {
  return conflict("service_staged", "The service is staged. Apply the environment first.");
}

/** Returns 409 service_deleting. */
export function serviceDeleting() {
  return conflict("service_deleting", "The service is being deleted.");
}

/** Returns 409 service_has_domains. */
export function serviceHasDomains() {
  return conflict(
    "service_has_domains",
    "A service with domains cannot be private. Remove its domains first, or leave config.public at true.",
  );
}

/** Returns 409 for the name of a project, an environment or a service. */
export function nameTaken(what: string) {
  return conflict(
    "name_taken",
    `The name is taken by another ${what}, or by one that is still being deleted.`,
  );
}
