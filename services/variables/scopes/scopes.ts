import { type Client, Code, ConnectError } from "@connectrpc/connect";
import { LRUCache } from "lru-cache";
import type { InternalService, ScopeChain } from "../../../proto/gen/berth/deployer/v1/internal_pb.ts";
import { type Db, type Pool, transaction } from "../../kit/postgres/db.ts";
import { notFound, unavailable } from "../../kit/rpc/refusals.ts";
import { chainOf, isAddon, type Scope, type ScopeKind, type ScopePath, tagOf } from "./scope.ts";
import type { ScopeRow, ServiceRef } from "./sql.ts";
import * as sql from "./sql.ts";
import { unmarkStale } from "./stale-sql.ts";
import { insertChain } from "./tree.ts";

export type Deployer = Pick<
  Client<typeof InternalService>,
  "resolveScope" | "getAddonKeys" | "listScopeServices" | "getServiceEnv"
>;
export type Scopes = ReturnType<typeof createScopes>;

// Looks up at most so many services per write; the rest arrive by event.
const MAX_DISCOVERED = 20;
const MAX_CACHED = 5_000;

/** For `catch`: turns a 404, of the deployer or of this service, into undefined. */
export function ignoreNotFound(error: unknown): undefined {
  if (error instanceof ConnectError && error.code === Code.NotFound) return undefined;
  throw error;
}

/** Returns the scope of a path as the projection has it, or undefined: the name of a service may not have arrived. */
export async function findKnownScope(db: Db, path: ScopePath): Promise<Scope | undefined> {
  const row = await sql.findScopeRow(db, path);
  return row && missingKind(path, row) === undefined ? toScope(path, row) : undefined;
}

/** Returns the current state of a scope found before, whatever its name; undefined when it was deleted. */
export async function rereadScope(db: Db, path: ScopePath, { serviceId }: Scope): Promise<Scope | undefined> {
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
  // Rows by path. Until a scope is deleted only revisions and the names of services change: those are read each time.
  const cache = new LRUCache<string, ScopeRow>({ max: MAX_CACHED });

  /** Returns the current row of a path found before; undefined when the path has to be looked up. */
  async function findCached(key: string, name: string | undefined): Promise<ScopeRow | undefined> {
    const row = cache.get(key);
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

  /** Returns the row of a path that the deployer resolved: a service by its id, since its name here may be outdated. */
  async function findResolved(path: ScopePath, { serviceId }: ScopeChain): Promise<ScopeRow | undefined> {
    if (path.service === undefined || serviceId === undefined) return sql.findScopeRow(pool, path);
    const row = await sql.findServiceRow(pool, serviceId);
    return row ?? sql.findScopeRow(pool, { ...path, service: undefined });
  }

  /** Asks the deployer whether a stale scope exists. Throws 404 when it does not, and 503. */
  async function confirmExists(lookup: Lookup): Promise<ScopeChain> {
    const chain = await deployer.resolveScope(lookup);
    await transaction(pool, async (tx) => {
      await insertChain(tx, chain);
      await unmarkStale(tx, chainOf(chain));
    });
    return chain;
  }

  return {
    /** Returns the scope of a path. Throws 404 naming what is missing, also for another account's or project's. */
    async find(path: ScopePath): Promise<Scope> {
      const { accountId, projectId, environmentId, service } = path;
      const lookup = { accountId, projectId, environmentId, service };
      const key = JSON.stringify([accountId, projectId, environmentId, service]);
      const cached = await findCached(key, service);
      if (cached) return toScope(path, cached);
      let row = await sql.findScopeRow(pool, path);
      if (row?.stale) {
        const chain = await confirmExists(lookup);
        // Another service may have the name by now.
        if (chain.serviceId !== (row.serviceId ?? undefined)) row = await findResolved(path, chain);
      }
      if (missingKind(path, row) === undefined) {
        if (!row!.stale) cache.set(key, row!);
        return toScope(path, row!);
      }
      const chain = await readThrough(lookup);
      if (chain) row = await findResolved(path, chain);
      const missing = missingKind(path, row);
      if (missing) throw notFound(missing);
      const scope = toScope(path, row!);
      if (isAddon(scope.serviceType)) await options.onAddonDiscovered(scope);
      return scope;
    },

    /**
     * Asks the deployer for services that connections name and the projection does not know, so that an addon
     * created a moment ago is found. A failure is ignored: the addon's events repeat it.
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
     * Returns the web, worker and cron services below a scope as the deployer has them now, since events may be late.
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
      if (row?.stale) await confirmExists({ serviceId });
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

// The scope at the depth of a path.
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
    mayHaveConfigEnv: row.stale || row.mayHaveConfigEnv,
    revision: row.serviceRevision!,
    tag: tagOf(serviceId, row.projectRevision, row.environmentRevision!, row.serviceRevision!),
  };
}
