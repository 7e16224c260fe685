import { atLeast, type RoleName } from "../../services/kit/rpc/caller-token.ts";
import type { CachedCaller } from "../auth/caller-cache.ts";
import type { Route } from "../routing/routes.ts";
import type { Narrowing } from "./narrowing.ts";
import type { Tool } from "./tools/tool.ts";

/** What a tool needs of its caller in an account, by the routes behind it. */
export type Needs = { user: RoleName; machine: RoleName };

/** Returns the roles that tools need: the highest of their routes'. */
export function needsOf(tools: Tool[], routes: Route[]): Map<string, Needs> {
  const highest = (roles: (RoleName | undefined)[]) =>
    roles.reduce<RoleName>((a, b) => (b !== undefined && atLeast(b, a) ? b : a), "reader");
  return new Map(
    tools.map(({ name, calls }) => {
      const own = routes.filter(({ rpc, follow }) => !follow && calls.includes(rpc));
      const user = highest(own.map(({ needs }) => needs));
      return [name, { user, machine: highest(own.map(({ needs, machineNeeds }) => machineNeeds ?? needs)) }];
    }),
  );
}

/** Returns the tools that a caller's role, and the connection, allow. */
export function allowedTools(
  tools: Tool[],
  { needs, caller, narrowing }: { needs: Map<string, Needs>; caller: CachedCaller; narrowing: Narrowing },
): Tool[] {
  const { account, project, readOnly, tools: chosen } = narrowing;
  const roles =
    account !== undefined && caller.roles.has(account)
      ? [caller.roles.get(account)]
      : [...caller.roles.values()];
  return tools.filter(({ name, does, ofAccount }) => {
    if (chosen && !chosen.has(name)) return false;
    if ((readOnly && does !== "reads") || (project !== undefined && ofAccount)) return false;
    return roles.some((role) => atLeast(role, needs.get(name)![caller.kind]));
  });
}
