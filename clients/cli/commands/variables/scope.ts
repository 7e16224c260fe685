import type { EnvironmentAddress, ProjectAddress, ServiceAddress } from "../../../typescript/src/path.ts";
import type { Context } from "../../context.ts";

export const SCOPES = ["project", "environment", "service"] as const;
export type Scope = (typeof SCOPES)[number];

export const SCOPE_OPTION = {
  kind: "text",
  value: "SCOPE",
  about: "project, environment or service; service by default",
  choices: SCOPES,
} as const;

export type ScopeAddress = ProjectAddress | EnvironmentAddress | ServiceAddress;

/** Returns where a scope is, and what it is called. */
export async function scopeAt(
  { at }: Context,
  scope = "service",
): Promise<{ address: ScopeAddress; label: string }> {
  if (scope === "project") {
    const { name, ...address } = await at.project();
    return { address, label: `project ${name}` };
  }
  if (scope === "environment") {
    const { name, ...address } = await at.environment();
    return { address, label: `environment ${name}` };
  }
  const address = await at.service();
  return { address, label: `service ${address.service}` };
}
