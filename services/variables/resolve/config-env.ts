import { createHash } from "node:crypto";
import { create } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import {
  type ResolvedVariable,
  ResolvedVariableSchema,
  type ResolvedVariables,
} from "../../../proto/gen/berth/variables/v1/variables_pb.ts";
import { unavailable } from "../../kit/rpc/errors.ts";
import type { Scope } from "../scopes/scope.ts";
import type { Deployer } from "../scopes/scopes.ts";

/** What a service has in its configuration besides variables, and what tells one state of it from another. */
export type ConfigEnv = { env: Record<string, string>; tag: string };

/** Returns `config.env` of a service as the deployer has it now. Throws 404, and 503 while it does not answer. */
export async function readConfigEnv(
  deployer: Pick<Deployer, "getServiceEnv">,
  { id: serviceId }: Scope,
): Promise<ConfigEnv> {
  const { env } = await deployer.getServiceEnv({ serviceId }).catch((error) => {
    if (!(error instanceof ConnectError) || error.code === Code.NotFound) throw error;
    // A deployer of before, during an upgrade.
    if (error.code === Code.Unimplemented) return { env: {} };
    throw unavailable();
  });
  const entries = Object.entries(env).sort(([one], [other]) => (one < other ? -1 : 1));
  // Nobody can guess more from it than the answer shows.
  const hash = () => createHash("sha256").update(JSON.stringify(entries)).digest("base64url").slice(0, 16);
  return { env, tag: entries.length === 0 ? "" : `-${hash()}` };
}

/** Returns the entries of a resolved set with those of `config.env` whose names no variable has, sorted by name. */
export function withConfigEnv(
  { data, dangling }: Pick<ResolvedVariables, "data" | "dangling">,
  { id }: Scope,
  { env }: ConfigEnv,
): ResolvedVariable[] {
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
