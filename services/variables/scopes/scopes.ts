import { type Client, Code, ConnectError } from "@connectrpc/connect";
import { LRUCache } from "lru-cache";
import type { InternalService, ScopeChain } from "../../../proto/gen/berth/deployer/v1/internal_pb.ts";
import { type Db, type Pool, transaction } from "../../kit/postgres/db.ts";
import { notFound, unavailable } from "../../kit/rpc/errors.ts";
import { chainOf, isAddon, type Scope, type ScopeKind, type ScopePath } from "./scope.ts";
import type { ScopeRow, ServiceRef } from "./sql.ts";
import * as sql from "./sql.ts";
import { insertChain } from "./tree.ts";

export type Deployer = Pick<
  Client<typeof InternalService>,
  "resolveScope" | "getAddonKeys" | "listScopeServices" | "getServiceEnv"
>;
export type Scopes = ReturnType<typeof createScopes>;

// Looks up at most so many services per write; the rest arrive by event.
const MAX_DISCOVERED = 20;
const MAX_KEPT = 5_000;

/** For `catch`: a 404, of the deployer or our own, becomes undefined. */
export function ignoreNotFound(error: unknown): undefined {
  if (error instanceof ConnectError && error.code === Code.NotFound) return undefined;
  throw error;
}

/** Returns the scope of a path as the projection knows it now, or undefined. A name may be unknown of one that exists. */
export async function findKnownScope(db: Db, path: ScopePath): Promise<Scope | undefined> {
  const row = await sql.findScopeRow(db, path);
  return row && missingKind(path, row) === undefined ? toScope(path, row) : undefined;
}

/** Returns a scope that was found as it is now, whatever its name; undefined when it was deleted. */
export async function findSameScope(
  db: Db,
  path: ScopePath,
  { serviceId }: Scope,
): Promise<Scope | undefined> {
  if (serviceId === undefined) return findKnownScope(db, path);
  const row = await sql.findServiceRow(db, serviceId);
  return row && toScope(path, row);
}

type Lookup = Parameters<Deployer["resolveScope"]>[0];

/**
 * Finds scopes in the projection of the deployer's tree, and asks the deployer where it has no row yet.
 * `onAddonDiscovered` runs for an addon that was found this way, after it is stored.
 */
export function createScopes(options: {
  pool: Pool;
  deployer: Deployer;
  onAddonDiscovered: (scope: Scope) => Promise<void>;
}) {
  const { pool, deployer } = options;
  // What was found by path. Only its revisions and a service's name change until it is deleted: they are read each time.
  const kept = new LRUCache<string, ScopeRow>({ max: MAX_KEPT });

  /** Returns the row of a path that was found before, as it is now; undefined when it has to be looked for again. */
  async function findAgain(key: string, name: string | undefined): Promise<ScopeRow | undefined> {
    const row = kept.get(key);
    if (!row) return undefined;
    const { projectId, environmentId, serviceId } = row;
    const found = await sql.listRevisions(pool, row);
    if (found.length < (serviceId ? 3 : environmentId ? 2 : 1)) return undefined;
    if (serviceId && found.find(({ id }) => id === serviceId)?.name !== name) return undefined;
    const revisionOf = (id: string | null) => found.find((one) => one.id === id)?.revision ?? null;
    return {
      ...row,
      projectRevision: revisionOf(projectId)!,
      environmentRevision: revisionOf(environmentId),
      serviceRevision: revisionOf(serviceId),
      mayHaveConfigEnv: found.some((one) => one.id === serviceId && one.mayHaveConfigEnv),
    };
  }

  async function readThrough(lookup: Lookup): Promise<ScopeChain | undefined> {
    const chain = await deployer.resolveScope(lookup).catch(ignoreNotFound);
    if (chain) await transaction(pool, (tx) => insertChain(tx, chain));
    return chain;
  }

  /**
   * Returns the row of a path of which the deployer has told: of a service by its id, as it alone knows for certain which one
   * has the name.
   */
  async function findTold(path: ScopePath, { serviceId }: ScopeChain): Promise<ScopeRow | undefined> {
    if (path.service === undefined || serviceId === undefined) return sql.findScopeRow(pool, path);
    const row = await sql.findServiceRow(pool, serviceId);
    return row ?? sql.findScopeRow(pool, { ...path, service: undefined });
  }

  /** Asks the deployer about a scope whose deletion or new name was announced. Throws 404 when it is not there, and 503. */
  async function confirmExists(lookup: Lookup): Promise<ScopeChain> {
    const chain = await deployer.resolveScope(lookup);
    await transaction(pool, async (tx) => {
      await insertChain(tx, chain);
      await sql.deleteStaleDoubts(tx, chainOf(chain));
    });
    return chain;
  }

  return {
    /** Returns the scope of a path. Throws 404 naming what is missing, also for another account's or project's. */
    async find(path: ScopePath): Promise<Scope> {
      const { accountId, projectId, environmentId, service } = path;
      const lookup = { accountId, projectId, environmentId, service };
      const key = JSON.stringify([accountId, projectId, environmentId, service]);
      const again = await findAgain(key, service);
      if (again) return toScope(path, again);
      let row = await sql.findScopeRow(pool, path);
      if (row?.doubted) {
        const told = await confirmExists(lookup);
        // Another service may have the name by now.
        if (told.serviceId !== (row.serviceId ?? undefined)) row = await findTold(path, told);
      }
      if (missingKind(path, row) === undefined) {
        if (!row!.doubted) kept.set(key, row!);
        return toScope(path, row!);
      }
      const told = await readThrough(lookup);
      if (told) row = await findTold(path, told);
      const missing = missingKind(path, row);
      if (missing) throw notFound(missing);
      const scope = toScope(path, row!);
      if (isAddon(scope.serviceType)) await options.onAddonDiscovered(scope);
      return scope;
    },

    /**
     * Asks the deployer for services that connections name and the projection does not know, so that an addon
     * made a moment ago is found. The addon's events repeat what fails here.
     */
    async discoverServices(scope: Scope, names: string[]): Promise<void> {
      const { accountId, projectId, environmentId } = scope;
      if (environmentId === undefined || names.length === 0) return;
      const known = await sql.findServiceNames(pool, environmentId, names);
      const unknown = names.filter((name) => !known.has(name)).slice(0, MAX_DISCOVERED);
      const paths = unknown.map((service) => ({ accountId, projectId, environmentId, service }));
      await Promise.allSettled(paths.map((path) => this.find(path)));
    },

    /**
     * Returns the web and worker services below a scope as the deployer has them now, as events may be late.
     * Throws 503 while it does not answer.
     */
    async listServicesUnder({ projectId, environmentId }: Scope): Promise<ServiceRef[]> {
      const { services } = await deployer.listScopeServices({ projectId, environmentId }).catch((error) => {
        throw error instanceof ConnectError ? unavailable() : error;
      });
      return services;
    },

    /** Returns a service by its id. Throws 404. */
    async findService(serviceId: string): Promise<Scope> {
      let row = await sql.findServiceRow(pool, serviceId);
      if (row?.doubted) await confirmExists({ serviceId });
      if (!row && (await readThrough({ serviceId }))) row = await sql.findServiceRow(pool, serviceId);
      if (!row) throw notFound("service");
      return toScope({ environmentId: row.environmentId!, service: "" }, row);
    },
  };
}

type Depth = Pick<ScopePath, "environmentId" | "service">;

// The outermost part of a path that the row does not have.
function missingKind(path: Depth, row: ScopeRow | undefined): ScopeKind | undefined {
  if (!row) return "project";
  if ((path.environmentId !== undefined || path.service !== undefined) && !row.environmentId)
    return "environment";
  return path.service !== undefined && !row.serviceId ? "service" : undefined;
}

// The scope that a path of this depth leads to.
function toScope(path: Depth, row: ScopeRow): Scope {
  const { accountId, projectId } = row;
  const project = { accountId, projectId, tag: "" };
  if (path.environmentId === undefined)
    return { ...project, kind: "project", id: projectId, revision: row.projectRevision };
  const environmentId = row.environmentId!;
  const environment = { ...project, environmentId };
  if (path.service === undefined)
    return { ...environment, kind: "environment", id: environmentId, revision: row.environmentRevision! };
  const serviceId = row.serviceId!;
  return {
    ...environment,
    kind: "service",
    id: serviceId,
    serviceId,
    serviceType: row.serviceType!,
    mayHaveConfigEnv: row.doubted || row.mayHaveConfigEnv,
    revision: row.serviceRevision!,
    tag: `${serviceId.slice(4)}-${row.projectRevision}-${row.environmentRevision}-${row.serviceRevision}`,
  };
}
