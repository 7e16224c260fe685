/** Where variables are set: a project is the widest scope, a service the nearest. */
export type ScopeKind = "project" | "environment" | "service";

/** Distance of a scope from the service that resolves its variables; the lowest wins. */
export const NEARNESS: Record<ScopeKind, number> = { service: 0, environment: 1, project: 2 };

/** How a request addresses a scope: by ids, and a service by its name. */
export type ScopePath = {
  accountId: string;
  projectId: string;
  environmentId?: string | undefined;
  service?: string | undefined;
};

/** A project, an environment or a service, with the ids of the scopes around it. */
export type Scope = {
  accountId: string;
  kind: ScopeKind;
  id: string;
  projectId: string;
  environmentId?: string | undefined;
  serviceId?: string | undefined;
  /** Of a service: web, worker, postgres or redis. */
  serviceType?: string | undefined;
  /** Of a service: false only when it has no `config.env`. */
  mayHaveConfigEnv?: boolean;
  revision: number;
  /** Of a service: changes with its id and with the revisions of its three scopes. */
  tag: string;
};

/** The ids of a scope, as the deployer's events and answers carry them; the innermost one is its own. */
export type ScopeIds = Pick<Scope, "accountId" | "projectId" | "environmentId" | "serviceId">;

/** Returns the ids of the scopes whose variables a scope sees, from the project inwards. */
export function chainOf({ projectId, environmentId, serviceId }: ScopeIds): string[] {
  return [projectId, environmentId, serviceId].filter((id) => id !== undefined);
}

/** Returns the tag of a service with these revisions of its scopes. */
export function tagOf(serviceId: string, project: number, environment: number, service: number): string {
  return `${serviceId.slice(4)}-${project}-${environment}-${service}`;
}

/** Returns the kind of a scope that is in the chain of another. */
export function kindInChain({ projectId, environmentId }: ScopeIds, scopeId: string): ScopeKind {
  if (scopeId === projectId) return "project";
  return scopeId === environmentId ? "environment" : "service";
}

/** Whether a service is a managed addon, which publishes keys and resolves nothing. */
export function isAddon(serviceType: string | undefined): boolean {
  return serviceType === "postgres" || serviceType === "redis";
}
