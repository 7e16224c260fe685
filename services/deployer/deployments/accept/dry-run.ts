import type { MessageInitShape } from "@bufbuild/protobuf";
import type { ConnectError } from "@connectrpc/connect";
import type { DryRunSchema } from "../../../../proto/gen/berth/deployer/v1/deployments_pb.ts";
import { ProblemSchema } from "../../../../proto/gen/berth/options/v1/options_pb.ts";
import { type Pool, type Tx, transaction } from "../../../kit/postgres/db.ts";
import { isRefusal, unavailable } from "../../../kit/rpc/refusals.ts";
import { requireProvisionable } from "../../accounts/provisioning.ts";
import { requireLocked } from "../../projects/require.ts";
import type { LockedService, ServicePath } from "../../projects/services-sql.ts";
import type { Runtime } from "../../runtime/port.ts";
import type { Secrets } from "../../secrets.ts";
import { RuntimeRefusal } from "../../terms/runtime-refusal.ts";
import { isDeployable } from "../../terms/services.ts";
import type { StoredConfig } from "../../terms/stored-config.ts";
import { type ResolveVariables, VariablesUnavailable } from "../../variables/variables-client.ts";
import { findLiveVersion, type LiveVersion } from "../retention-sql.ts";
import { toNotices } from "../sql.ts";
import { compareDigests } from "../variable-digests.ts";
import type { DeploymentInput } from "./accept.ts";
import { scalingWarnings } from "./scaling-warnings.ts";

export type DryRunDeps = {
  pool: Pool;
  secrets: Secrets;
  resolve: ResolveVariables;
  runtime: Pick<Runtime, "check">;
};

/** Returns what a deployment of the service would run, or throws its refusal. */
export type ChooseInput = (tx: Tx, service: LockedService) => Promise<DeploymentInput>;

/**
 * Returns whether a deployment would be accepted and could run here, and how it differs from the live release
 * (docs/deployments.md#dry-run); changes nothing. Throws 404 when the service does not exist, and 503 when its
 * variables cannot be resolved.
 */
export async function dryRun(
  { pool, secrets, resolve, runtime }: DryRunDeps,
  path: ServicePath,
  choose: ChooseInput,
): Promise<MessageInitShape<typeof DryRunSchema>> {
  const { service, live, chosen, unprovisioned } = await transaction(pool, async (tx) => {
    const service = await requireLocked(tx, path);
    const chosen = await choose(tx, service).catch(toRefusal);
    const unprovisioned = service.staged
      ? undefined
      : await requireProvisionable(tx, service.accountId).then(() => undefined, toRefusal);
    return { service, live: await findLiveVersion(tx, service.id), chosen, unprovisioned };
  });
  const input = "refused" in chosen ? undefined : chosen;
  const refusal =
    "refused" in chosen
      ? chosen.refused
      : (unprovisioned?.refused ?? findRuntimeRefusal(runtime, service, chosen));
  const resolved = isDeployable(service.type) ? await resolve(service.id).catch(toUnavailable) : undefined;
  return {
    eligible: refusal === undefined,
    refusal,
    diff: {
      image: input ? imageDiff(live, input) : { changed: false },
      config: input ? configDiff(live?.config, configOf(service, input)) : [],
      variables: compareDigests(secrets, service.id, live?.variables, resolved?.data ?? []),
    },
    dangling: resolved?.dangling.map(({ name, reason }) => ({ name, reason })),
    warnings: input ? toNotices(scalingWarnings(service.liveScale, configOf(service, input))) : [],
  };
}

/** Returns the refusal that applying would end with, if nothing has to be built first. */
function findRuntimeRefusal(runtime: DryRunDeps["runtime"], service: LockedService, input: DeploymentInput) {
  const run = "restores" in input ? input.restores : input;
  const artifact = "artifact" in run ? run.artifact : undefined;
  if (artifact === undefined) return undefined;
  try {
    runtime.check({ artifact, command: configOf(service, input).command });
    return undefined;
  } catch (error) {
    if (!(error instanceof RuntimeRefusal)) throw error;
    const { code, message } = error;
    return { status: 422, code: "validation_failed", message, reasons: [code] };
  }
}

function toRefusal(error: unknown) {
  if (!isRefusal(error)) throw error;
  const { status, code, message, details } = (error as ConnectError).findDetails(ProblemSchema)[0]!;
  return { refused: { status, code, message, reasons: details.map((detail) => detail.reason) } };
}

function toUnavailable(error: unknown): never {
  throw error instanceof VariablesUnavailable
    ? unavailable("The service's variables could not be resolved.")
    : error;
}

function imageDiff(live: LiveVersion | undefined, input: DeploymentInput) {
  const from = live?.image ?? live?.archiveRef;
  // The branch's commit is known only once it is fetched.
  if ("branch" in input) return { changed: true, from, to: `branch ${input.branch}` };
  const run: Partial<LiveVersion> = "restores" in input ? input.restores : input;
  // What a tag stands for by now is known only once it is deployed.
  const same = run.artifact === live?.artifact || live?.artifact?.startsWith(`${run.artifact}@`);
  const changed = !live || !same;
  return { changed, from, to: changed ? (run.image ?? run.archiveRef) : from };
}

/** Returns the configuration with which a deployment of a service runs. */
export function configOf(service: LockedService, input: DeploymentInput): StoredConfig {
  return "restores" in input ? input.restores.config : service.config;
}

/** Returns the members that differ. `autoApply` is not part of a release. */
function configDiff(live: StoredConfig | undefined, next: StoredConfig): string[] {
  const [before, after] = [flatten(live), flatten(next)];
  const names = new Set([...before.keys(), ...after.keys()]);
  return [...names].filter((name) => before.get(name) !== after.get(name)).sort();
}

function flatten(config: StoredConfig | undefined): Map<string, string> {
  const { env = {}, autoApply: _, ...members } = config ?? {};
  const own = Object.entries(members).map(([name, value]) => [name, JSON.stringify(value)] as const);
  return new Map([...own, ...Object.entries(env).map(([name, value]) => [`env.${name}`, value] as const)]);
}
