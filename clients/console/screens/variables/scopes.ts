import type { EnvironmentAddress, ProjectAddress, ServiceAddress } from "../../../typescript/src/index.ts";

export type ScopeName = "service" | "environment" | "project";

export const SCOPES: ScopeName[] = ["service", "environment", "project"];

/** Returns the address of a scope that a service is in. */
export function scopeAt(
  at: ServiceAddress,
  scope: ScopeName,
): ServiceAddress | EnvironmentAddress | ProjectAddress {
  const { accountId, projectId, environmentId } = at;
  if (scope === "service") return at;
  return scope === "environment" ? { accountId, projectId, environmentId } : { accountId, projectId };
}
