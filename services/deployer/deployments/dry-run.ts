import type { MessageInitShape } from "@bufbuild/protobuf";
import type { ConnectError } from "@connectrpc/connect";
import type { DryRunSchema } from "../../../proto/gen/berth/deployer/v1/deployments_pb.ts";
import { ProblemSchema } from "../../../proto/gen/berth/options/v1/options_pb.ts";
import { type Pool, type Tx, transaction } from "../../kit/postgres/db.ts";
import { isRefusal, unavailable } from "../../kit/rpc/errors.ts";
import { requireLocked } from "../api/require.ts";
import { isDeployable, type StoredConfig } from "../catalog/service-config.ts";
import type { LockedService, ServicePath } from "../catalog/services-sql.ts";
import {
  type ResolvedVariables,
  type ResolveVariables,
  VariablesUnavailable,
} from "../releases/variables-client.ts";
import { type Runtime, RuntimeRefusal } from "../runtime/port.ts";
import type { Secrets } from "../secrets.ts";
import type { DeploymentInput } from "./accept.ts";
import { findLiveRun, type LiveRun } from "./retention-sql.ts";
import { compareDigests } from "./variable-digests.ts";

export type DryRunDeps = {
  pool: Pool;
  secrets: Secrets;
  resolve: ResolveVariables;
  runtime: Pick<Runtime, "check">;
};

/** Says what a service's deployment would run, or throws what it is refused with. */
export type ChooseInput = (tx: Tx, service: LockedService) => Promise<DeploymentInput>;

/**
 * What a deployment would do, without doing it (docs/deployments.md#dry-run): whether it would be accepted and could
 * run here, and how it differs from the live release. 404 when the service does not exist, 503 when its variables are away.
 */
export async function dryRun(
  { pool, secrets, resolve, runtime }: DryRunDeps,
  path: ServicePath,
  choose: ChooseInput,
): Promise<MessageInitShape<typeof DryRunSchema>> {
  const { service, live, chosen } = await transaction(pool, async (tx) => {
    const service = await requireLocked(tx, path);
    const chosen = await choose(tx, service).catch(refusalOf);
    return { service, live: await findLiveRun(tx, service.id), chosen };
  });
  const wanted = "refused" in chosen ? undefined : chosen;
  const refusal = "refused" in chosen ? chosen.refused : unrunnable(runtime, service, chosen);
  const resolved = isDeployable(service.type) ? await resolve(service.id).catch(away) : undefined;
  return {
    eligible: refusal === undefined,
    refusal,
    diff: {
      image: wanted ? imageDiff(live, wanted) : { changed: false },
      config: wanted ? configDiff(live?.config, configOf(service, wanted)) : [],
      variables: compareDigests(secrets, service.id, live?.variables, resolved?.values ?? {}),
    },
    dangling: resolved?.dangling,
  };
}

/** What the runtime will refuse when it is told, of what is built already. */
function unrunnable(runtime: DryRunDeps["runtime"], service: LockedService, wanted: DeploymentInput) {
  const run = "restores" in wanted ? wanted.restores : wanted;
  const artifact = "artifact" in run ? run.artifact : undefined;
  if (artifact === undefined) return undefined;
  try {
    runtime.check({ artifact, command: configOf(service, wanted).command });
    return undefined;
  } catch (error) {
    if (!(error instanceof RuntimeRefusal)) throw error;
    const { code, message } = error;
    return { status: 422, code: "validation_failed", message, reasons: [code] };
  }
}

function refusalOf(error: unknown) {
  if (!isRefusal(error)) throw error;
  const { status, code, message, details } = (error as ConnectError).findDetails(ProblemSchema)[0]!;
  return { refused: { status, code, message, reasons: details.map((detail) => detail.reason) } };
}

function away(error: unknown): ResolvedVariables {
  throw error instanceof VariablesUnavailable
    ? unavailable("The service's variables could not be resolved.")
    : error;
}

function imageDiff(live: LiveRun | undefined, wanted: DeploymentInput) {
  // Which commit a branch stands for is known only once it is fetched.
  if ("branch" in wanted)
    return { changed: true, from: live?.image ?? live?.archiveRef, to: `branch ${wanted.branch}` };
  const run: Partial<LiveRun> = "restores" in wanted ? wanted.restores : wanted;
  const from = live?.image ?? live?.archiveRef;
  const changed = !live || run.artifact !== live.artifact;
  return { changed, from, to: changed ? (run.image ?? run.archiveRef) : from };
}

function configOf(service: LockedService, wanted: DeploymentInput): StoredConfig {
  return "restores" in wanted ? wanted.restores.config : service.config;
}

/** Members that differ; `autoApply` is no part of a release. */
function configDiff(live: StoredConfig | undefined, next: StoredConfig): string[] {
  const [before, after] = [flat(live), flat(next)];
  const names = new Set([...before.keys(), ...after.keys()]);
  return [...names].filter((name) => before.get(name) !== after.get(name)).sort();
}

function flat(config: StoredConfig | undefined): Map<string, string> {
  const { env = {}, autoApply: _, ...members } = config ?? {};
  const own = Object.entries(members).map(([name, value]) => [name, JSON.stringify(value)] as const);
  return new Map([...own, ...Object.entries(env).map(([name, value]) => [`env.${name}`, value] as const)]);
}
