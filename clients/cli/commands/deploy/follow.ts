import { setTimeout as delay } from "node:timers/promises";
import { isRefusal } from "../../../typescript/src/errors.ts";
import type {
  Deployment,
  DryRun,
  Service,
  StagedAcknowledgement,
} from "../../../typescript/src/generated/types.ts";
import type { ServiceAddress } from "../../../typescript/src/path.ts";
import type { Context } from "../../context.ts";
import { Failure } from "../../failure.ts";
import { clean } from "../../terminal/clean.ts";
import { duration } from "../../terminal/format.ts";
import { createSteps, type Steps } from "./steps.ts";

/** How a deployment ended for who waits; `unhealthy`: it is applied, and what runs does not become healthy. */
type Verdict = {
  outcome: "healthy" | "failed" | "superseded" | "unhealthy";
  deployment: Deployment;
  service?: Promise<Service | undefined> | undefined;
};

/** What is said of a release that may still become healthy. */
const MAY_PASS = ["not_answering"];

const POLL_MS = 2_000;
/** How long the rest of a build's log may take once the build is over. */
const LAST_LINES_MS = 3_000;

/** Handles the answer to a deployment: follows it to its end, or says how. Returns the exit code. */
export async function finish(
  ctx: Context,
  at: ServiceAddress,
  accepted: Deployment | StagedAcknowledgement,
  detach: boolean,
): Promise<number> {
  const { io } = ctx;
  if (!("version" in accepted)) {
    if (io.json) io.outJson({ outcome: "staged", service: at.service });
    else {
      io.out(`${at.service} is staged.`);
      io.note("  It deploys when its environment is applied: berth envs apply");
    }
    return 0;
  }
  const { version } = accepted;
  ctx.sayWhenCanceled(
    `v${version} of ${at.service} continues without this terminal.`,
    `Follow it: berth logs ${at.service} --build ${version} -f`,
    `Cancel it: berth cancel ${version} -s ${at.service}`,
  );
  if (detach) {
    if (io.json) io.outJson({ outcome: "accepted", deployment: accepted });
    else io.out(`v${version} of ${at.service} is accepted: berth logs ${at.service} --build ${version} -f`);
    return 0;
  }
  return conclude(ctx, at, await follow(ctx, at, accepted));
}

async function conclude(
  ctx: Context,
  at: ServiceAddress,
  { outcome, deployment, service }: Verdict,
): Promise<number> {
  const { io, signal } = ctx;
  const berth = await ctx.berth();
  if (outcome === "healthy") {
    const url = (await service)?.url ?? (await berth.services.get(at, { signal })).url;
    if (io.json) io.outJson({ outcome, deployment, ...(url && { url }) });
    else io.out(url ?? `${at.service} runs v${deployment.version}.`);
    return 0;
  }
  if (io.json) io.outJson({ outcome, deployment });
  const { version, errors, warnings } = deployment;
  const [worst] = [...errors, ...warnings.filter(({ stage }) => stage === "rollout")];
  const name = `v${version} of ${at.service}`;
  if (outcome === "superseded")
    throw new Failure(
      "deployFailed",
      `${name} was superseded by a later deployment.`,
      "berth status",
      outcome,
    );
  if (outcome === "unhealthy")
    throw new Failure(
      "deployFailed",
      `${name} does not become healthy: ${worst?.message ?? "no reason was given."}`,
      `berth logs ${at.service}, then berth up${version > 1 ? " or berth rollback" : ""}`,
      worst?.code ?? outcome,
    );
  const wasBuilding = deployment.buildStartedAt !== undefined && deployment.builtAt === undefined;
  const setting = worst && settingIn(worst.message);
  const look = wasBuilding ? `berth logs ${at.service} --build ${version}` : "berth status";
  throw new Failure(
    "deployFailed",
    `${name} failed: ${worst?.message ?? "no reason was given."}`,
    setting ? `berth api PATCH ${SERVICE} -s ${at.service} -d '{"config":{"${setting}":"VALUE"}}'` : look,
    worst?.code ?? outcome,
  );
}

const SERVICE = "/accounts/{account}/projects/{project}/environments/{environment}/services/{service}";

/** Returns the setting of a service that a failure asks for. */
function settingIn(message: string): string | undefined {
  return /\bconfig\.(\w+)/.exec(message)?.[1] ?? (/\bstart command\b/.test(message) ? "command" : undefined);
}

/** Shows a deployment's progress until it is over. */
async function follow(ctx: Context, at: ServiceAddress, accepted: Deployment): Promise<Verdict> {
  const steps = createSteps(ctx.io);
  const reading = new AbortController();
  const signal = AbortSignal.any([ctx.signal, reading.signal]);
  let log: Promise<void> | undefined;
  const readLog = () => (log ??= showBuildLog(ctx, at, accepted.version, steps, signal).catch(() => {}));
  const seen = new Set<string>();
  let rollingSince: number | undefined;
  let service: Promise<Service | undefined> | undefined;
  try {
    let last = accepted;
    for await (const deployment of states(ctx, at, accepted.version)) {
      last = deployment;
      const { status, buildStage, warnings } = deployment;
      if (status === "queued") steps.wait("Waiting", "for its turn");
      if (deployment.buildStartedAt) void readLog();
      if (status === "building" && buildStage === "Waiting for builder")
        steps.wait("Waiting", "for a builder");
      if (status === "applied" && rollingSince === undefined) {
        await lastLines(log);
        rollingSince = performance.now();
        // On one machine its address is there already, and the release takes a second at least.
        const berth = await ctx.berth();
        service = berth.services.get(at, { signal: ctx.signal }).catch(() => undefined);
        steps.wait("Rolling out", `v${deployment.version}`);
      }
      for (const { stage, code, message } of warnings) {
        if (seen.has(code + message)) continue;
        seen.add(code + message);
        for (const line of message.split("\n")) steps.line("Warning", clean(line));
        if (stage === "rollout" && !MAY_PASS.includes(code)) return { outcome: "unhealthy", deployment };
      }
      if (status === "failed" || status === "superseded") {
        await lastLines(log);
        return { outcome: status, deployment };
      }
      if (deployment.healthyAt) {
        const took = rollingSince === undefined ? "" : ` in ${duration(performance.now() - rollingSince)}`;
        steps.line("Rolling out", `v${deployment.version} healthy${took}`);
        return { outcome: "healthy", deployment, service };
      }
    }
    throw new Failure(
      "refused",
      `v${last.version} is no longer followed while it is ${last.status}.`,
      "berth status",
    );
  } finally {
    steps.end();
    reading.abort();
  }
}

/** Waits for the rest of a build's log. Its timer keeps no process running that is done. */
async function lastLines(log: Promise<void> | undefined): Promise<void> {
  if (log) await Promise.race([log, delay(LAST_LINES_MS, undefined, { ref: false })]);
}

/** Yields each change of a deployment; by asking again and again where the user's streams are used up. */
async function* states(ctx: Context, at: ServiceAddress, version: number): AsyncGenerator<Deployment> {
  const berth = await ctx.berth();
  const { signal } = ctx;
  try {
    let outcome: string | undefined;
    for await (const event of berth.deployments.follow(at, version, { signal })) {
      if (event.event === "end") outcome = (event.data as { outcome: string }).outcome;
      else yield event.data as Deployment;
    }
    // Superseded after it was applied: only the end of the stream tells.
    const deployment = await berth.deployments.get(at, version, { signal });
    yield outcome === "superseded" ? { ...deployment, status: outcome } : deployment;
  } catch (error) {
    if (!isRefusal(error, "rate_limited")) throw error;
    for (;;) {
      yield await berth.deployments.get(at, version, { signal });
      await delay(POLL_MS, undefined, { signal }).catch(() => signal.throwIfAborted());
    }
  }
}

async function showBuildLog(
  ctx: Context,
  at: ServiceAddress,
  version: number,
  steps: Steps,
  signal: AbortSignal,
) {
  const berth = await ctx.berth();
  const show = (logs: string) => {
    for (const line of logs.split("\n"))
      if (line !== "") steps.line("Building", clean(line, ctx.io.colors.err));
  };
  try {
    for await (const { event, data } of berth.deployments.followBuildLogs(at, version, { signal })) {
      if (event === "piece") show((data as { logs: string }).logs);
      if (event === "restart") steps.line("Building", "started over");
    }
  } catch (error) {
    // Its states are followed by asking too then, and the log comes as a whole at the end.
    if (!isRefusal(error, "rate_limited")) throw error;
    for (;;) {
      const { logs, live } = await berth.deployments.buildLogs(at, version, { signal });
      if (!live) return show(logs);
      await delay(POLL_MS, undefined, { signal });
    }
  }
}

/** Prints what a dry run found. */
export function printDryRun({ io }: Context, { eligible, refusal, diff, dangling, warnings }: DryRun): void {
  const { image, config, variables } = diff;
  if (image.changed) io.note(`  image      ${image.from ?? "none"} → ${image.to ?? "none"}`);
  if (config.length > 0) io.note(`  config     ${config.join(", ")}`);
  const names = [
    ...variables.added.map((name) => `+${name}`),
    ...variables.changed.map((name) => `~${name}`),
    ...variables.removed.map((name) => `-${name}`),
  ];
  if (names.length > 0) io.note(`  variables  ${names.join(" ")}`);
  if (!image.changed && config.length === 0 && names.length === 0) io.note("  nothing changes");
  for (const { name, reason } of dangling) io.note(`  ${name} does not resolve: ${reason}`);
  for (const { message } of warnings) io.note(`  ${io.styleErr("yellow", "warning")}    ${clean(message)}`);
  if (!eligible && refusal) io.note(`  ${io.styleErr("red", "refused")}    ${clean(refusal.message)}`);
}
