import { create } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import {
  type ResolvedVariable,
  ResolvedVariableSchema,
  type ResolvedVariables,
} from "../../../proto/gen/berth/variables/v1/variables_pb.ts";
import type { Pool } from "../../kit/postgres/db.ts";
import { unavailable } from "../../kit/rpc/errors.ts";
import type { Scope } from "../scopes/scope.ts";
import type { Deployer } from "../scopes/scopes.ts";
import { clearConfigEnv } from "../scopes/sql.ts";

/** What a service has in its configuration besides variables, and what tells one state of it from another. */
export type ConfigEnv = { env: Record<string, string>; tag: string };

const NONE: ConfigEnv = { env: {}, tag: "" };

/**
 * Returns `config.env` of a service as the deployer has it now, which is asked only where there may be any. Throws 404, and
 * 503 while it does not answer.
 */
export async function readConfigEnv(
  { pool, deployer }: { pool: Pool; deployer: Pick<Deployer, "getServiceEnv"> },
  { id: serviceId, mayHaveConfigEnv }: Scope,
): Promise<ConfigEnv> {
  if (!mayHaveConfigEnv) return NONE;
  const found = await deployer.getServiceEnv({ serviceId }).catch((error) => {
    if (!(error instanceof ConnectError) || error.code === Code.NotFound) throw error;
    // A deployer of before, during an upgrade.
    if (error.code === Code.Unimplemented) return undefined;
    throw unavailable();
  });
  if (!found) return NONE;
  const { env, revision } = found;
  if (Object.keys(env).length > 0) return { env, tag: `-${revision}` };
  await clearConfigEnv(pool, serviceId);
  return NONE;
}

/** Returns the entries of a resolved set with those of `config.env` whose names no variable has, sorted by name. */
export function withConfigEnv(
  { data, dangling }: Pick<ResolvedVariables, "data" | "dangling">,
  { id }: Scope,
  { env }: ConfigEnv,
): ResolvedVariable[] {
  if (Object.keys(env).length === 0) return data;
  const taken = new Set([...data, ...dangling].map(({ name }) => name));
  const own = Object.entries(env)
    .filter(([name]) => !taken.has(name))
    .map(([name, value]) =>
      create(ResolvedVariableSchema, {
        ...{ name, value, sensitive: false, fromConfig: true },
        ...{ source: "service", sourceId: id, sourceScopeId: id },
      }),
    );
  return [...data, ...own].sort((one, other) => (one.name < other.name ? -1 : 1));
}
