import { atLeast, type RoleName } from "../../../services/kit/rpc/caller-token.ts";
import type { CachedCaller } from "../../auth/caller-cache.ts";
import type { Route } from "../../routing/routes.ts";
import type { Narrowing } from "../narrowing.ts";
import type { Docs } from "../texts/docs.ts";
import { accountTools } from "./account.ts";
import { catalogTools, newPlaces } from "./catalog.ts";
import { deleteTools } from "./delete.ts";
import { deploymentTools, deployTools } from "./deployments.ts";
import { docsTool } from "./docs.ts";
import { logTools } from "./logs.ts";
import type { Tool } from "./tool.ts";
import { variableTools, variableWrites } from "./variables.ts";

/** Returns all tools, in the order in which they are listed: reads first. */
export function allTools(docs: Docs): Tool[] {
  return [
    ...[...catalogTools, ...deploymentTools, ...logTools, ...variableTools, ...accountTools, docsTool(docs)],
    ...[...newPlaces, ...variableWrites, ...deployTools, ...deleteTools],
  ];
}

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
