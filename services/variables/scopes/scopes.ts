import type { Client } from "@connectrpc/connect";
import { Code, ConnectError } from "@connectrpc/connect";
import type { CatalogService, ScopeChain } from "../../../proto/gen/berth/deployer/v1/catalog_pb.ts";
import { type Db, type Pool, transaction } from "../../kit/postgres/db.ts";
import { notFound, unavailable } from "../../kit/rpc/errors.ts";
import type { Scope as ScopeKind } from "../resolve/resolve.ts";
import type { Neighbour, Path, PathRow } from "./sql.ts";
import * as sql from "./sql.ts";
import { learn } from "./tree.ts";

/** A project, an environment or a service, with what stands around it. */
export type Scope = {
  accountId: string;
  kind: ScopeKind;
  id: string;
  projectId: string;
  environmentId?: string | undefined;
  serviceId?: string | undefined;
  /** Of a service: web, worker, postgres or redis. */
  type?: string | undefined;
  revision: number;
  /** Names the state of all three scopes of a service, in ids and revisions. */
  tag: string;
};

export type Catalog = Pick<
  Client<typeof CatalogService>,
  "resolveScope" | "getAddonKeys" | "listScopeServices"
>;
export type Scopes = ReturnType<typeof createScopes>;

// Of the services that one write names; more are left to events.
const MAX_MET = 20;

/** Ids of the scopes that a scope sees, from the project inwards. */
export function chainOf(scope: Scope): string[] {
  return [scope.projectId, scope.environmentId, scope.serviceId].filter((id) => id !== undefined);
}

/** Whether a service is a managed addon, which publishes keys and resolves nothing. */
export function isAddon(type: string | undefined): boolean {
  return type === "postgres" || type === "redis";
}

/** For `catch`: 404 of the deployer, or of our own, is undefined. */
export function unlessNotFound(error: unknown): undefined {
  if (error instanceof ConnectError && error.code === Code.NotFound) return undefined;
  throw error;
}

/** The scope of a path as the projection knows it now, or undefined. */
export async function knownScope(db: Db, path: Path): Promise<Scope | undefined> {
  const row = await sql.scopesOfPath(db, path);
  return row && missing(path, row) === undefined ? scopeOf(path, row) : undefined;
}

/**
 * Finds scopes in the projection of the deployer's tree, and asks the deployer where it has no row yet.
 * `welcome` is told of an addon that was met this way, after it is known.
 */
export function createScopes(options: {
  pool: Pool;
  catalog: Catalog;
  welcome: (scope: Scope) => Promise<void>;
}) {
  const { pool, catalog } = options;

  type Ask = Parameters<Catalog["resolveScope"]>[0];

  async function readThrough(ask: Ask): Promise<ScopeChain | undefined> {
    const chain = await catalog.resolveScope(ask).catch(unlessNotFound);
    if (chain) await transaction(pool, (tx) => learn(tx, chainFacts(chain)));
    return chain;
  }

  /** Asks the deployer about a scope whose deletion was announced. Throws 404 when it is no more, and 503. */
  async function confirm(ask: Ask): Promise<ScopeChain> {
    const chain = await catalog.resolveScope(ask);
    await transaction(pool, (tx) => learn(tx, chainFacts(chain)));
    const { projectId, environmentId, serviceId } = chain;
    await sql.endDoubts(
      pool,
      [projectId, environmentId, serviceId].filter((id) => id !== undefined),
    );
    return chain;
  }

  return {
    /** The scope of a path. Throws 404 naming what is missing, also for another account's or project's. */
    async find(path: Path): Promise<Scope> {
      const { accountId, projectId, environmentId, service } = path;
      const ask = { accountId, projectId, environmentId, service };
      let row = await sql.scopesOfPath(pool, path);
      if (row?.doubted) {
        const { serviceId } = await confirm(ask);
        // Made anew under its name it is another one.
        if (serviceId !== (row.serviceId ?? undefined)) row = await sql.scopesOfPath(pool, path);
      }
      let lacking = missing(path, row);
      if (lacking) {
        const chain = await readThrough(ask);
        if (chain) row = await sql.scopesOfPath(pool, path);
        lacking = missing(path, row);
        if (lacking) throw notFound(lacking);
        if (isAddon(row!.serviceType ?? undefined)) await options.welcome(scopeOf(path, row!));
      }
      return scopeOf(path, row!);
    },

    /**
     * Asks the deployer for services that connections name and nobody has met yet, so that an addon made a
     * moment ago is found. What fails here is made good by the addon's events.
     */
    async meet(scope: Scope, names: string[]): Promise<void> {
      const { accountId, projectId, environmentId } = scope;
      if (environmentId === undefined || names.length === 0) return;
      const known = await sql.knownServices(pool, environmentId, names);
      const strangers = names.filter((name) => !known.has(name)).slice(0, MAX_MET);
      const paths = strangers.map((service) => ({ accountId, projectId, environmentId, service }));
      await Promise.allSettled(paths.map((path) => this.find(path)));
    },

    /**
     * The web and worker services below a scope, as they are now: asked for at the deployer, as events may be
     * late. Throws 503 while it cannot tell.
     */
    async servicesUnder({ projectId, environmentId }: Scope): Promise<Neighbour[]> {
      const { services } = await catalog.listScopeServices({ projectId, environmentId }).catch((error) => {
        throw error instanceof ConnectError ? unavailable() : error;
      });
      return services;
    },

    /** A service by its id. Throws 404. */
    async ofService(serviceId: string): Promise<Scope> {
      let row = await sql.scopesOfService(pool, serviceId);
      if (row?.doubted) await confirm({ serviceId });
      if (!row && (await readThrough({ serviceId }))) row = await sql.scopesOfService(pool, serviceId);
      if (!row) throw notFound("service");
      return scopeOf({ environmentId: row.environmentId!, service: "" }, row);
    },
  };
}

type Wanted = Pick<Path, "environmentId" | "service">;

// The outermost part of a path that the row does not have.
function missing(path: Wanted, row: PathRow | undefined): ScopeKind | undefined {
  if (!row) return "project";
  if ((path.environmentId !== undefined || path.service !== undefined) && !row.environmentId)
    return "environment";
  return path.service !== undefined && !row.serviceId ? "service" : undefined;
}

function scopeOf(path: Wanted, row: PathRow): Scope {
  const { accountId, projectId } = row;
  const base = { accountId, projectId, tag: "" };
  if (path.environmentId === undefined)
    return { ...base, kind: "project", id: projectId, revision: row.projectRevision };
  const environmentId = row.environmentId!;
  if (path.service === undefined)
    return {
      ...base,
      kind: "environment",
      id: environmentId,
      environmentId,
      revision: row.environmentRevision!,
    };
  const serviceId = row.serviceId!;
  return {
    accountId,
    projectId,
    environmentId,
    serviceId,
    kind: "service",
    id: serviceId,
    type: row.serviceType!,
    revision: row.serviceRevision!,
    tag: `${serviceId.slice(4)}-${row.projectRevision}-${row.environmentRevision}-${row.serviceRevision}`,
  };
}

function chainFacts(chain: ScopeChain) {
  const { accountId, projectId, environmentId, serviceId, serviceName, serviceType } = chain;
  const service =
    serviceId !== undefined && serviceName !== undefined && serviceType !== undefined
      ? { id: serviceId, name: serviceName, type: serviceType }
      : undefined;
  return { accountId, projectId, environmentId, service };
}
