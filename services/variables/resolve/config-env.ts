import { create } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import {
  type ResolvedVariable,
  ResolvedVariableSchema,
  type ResolvedVariables,
} from "../../../proto/gen/berth/variables/v1/variables_pb.ts";
import type { Pool } from "../../kit/postgres/db.ts";
import { unavailable } from "../../kit/rpc/refusals.ts";
import type { Scope } from "../scopes/scope.ts";
import type { Deployer } from "../scopes/scopes.ts";
import { clearConfigEnv } from "../scopes/sql.ts";

/** The `config.env` of a service, and a suffix for the tag of its resolved set that changes with it. */
export type ConfigEnv = { env: Record<string, string>; tag: string };

const NONE: ConfigEnv = { env: {}, tag: "" };

/**
 * Returns the current `config.env` of a service. Asks the deployer only where there may be one. Throws 404, and 503 while
 * the deployer does not answer.
 */
export async function readConfigEnv(
  { pool, deployer }: { pool: Pool; deployer: Pick<Deployer, "getServiceEnv"> },
  { id: serviceId, mayHaveConfigEnv }: Scope,
): Promise<ConfigEnv> {
  if (!mayHaveConfigEnv) return NONE;
  const found = await deployer.getServiceEnv({ serviceId }).catch((error) => {
    if (!(error instanceof ConnectError) || error.code === Code.NotFound) throw error;
    // A deployer of the previous version, during an upgrade.
    if (error.code === Code.Unimplemented) return undefined;
    throw unavailable();
  });
  if (!found) return NONE;
  const { env, revision } = found;
  if (Object.keys(env).length > 0) return { env, tag: `-${revision}` };
  await clearConfigEnv(pool, serviceId);
  return NONE;
}

/** Returns the entries of a resolved set and those of `config.env` that no variable has the name of, sorted by name. */
export function withConfigEnv(
  { data, dangling }: Pick<ResolvedVariables, "data" | "dangling">,
  { id }: Scope,
  { env }: ConfigEnv,
): ResolvedVariable[] {
  if (Object.keys(env).length === 0) return data;
  const taken = new Set([...data, ...dangling].map(({ name }) => name));
  const own = Object.entries(env)
    .filter(([name]) => !taken.has(name))
    .map(([name, value]) => configEntry(id, name, value));
  return [...data, ...own].sort((one, other) => (one.name < other.name ? -1 : 1));
}

/** Returns the entry of a name in the `config.env` of a service. */
export function configEntry(serviceId: string, name: string, value: string): ResolvedVariable {
  return create(ResolvedVariableSchema, {
    ...{ name, value, sensitive: false, fromConfig: true },
    ...{ source: "service", sourceId: serviceId, sourceScopeId: serviceId },
  });
}
