import { failDeployment } from "../deployments/fail-deployment.ts";
import { beginApply } from "../deployments/transitions-sql.ts";
import { type ApplyDeps, resolveOrWarn, waitsForAddons } from "../releases/apply/apply-release.ts";
import { pinImage } from "../releases/apply/pin-image.ts";
import { commandIn, toRelease } from "../releases/apply/to-release.ts";
import { whileLeased } from "../releases/lease-lock.ts";
import { findRelease, type ReleaseRow } from "../releases/sql.ts";
import type { RunPlace, RunStatus } from "../runtime/port.ts";
import { newNotice } from "../terms/notice.ts";
import { RuntimeRefusal } from "../terms/runtime-refusal.ts";
import { TIMEOUTS } from "../terms/timeouts.ts";
import { recordOutput } from "./record-output.ts";
import * as sql from "./sql.ts";

/** The reconciler ends a command at its deadline; the runtime does so this much later, if no deployer runs. */
const LATER_SECONDS = 300;
/** How many of the last lines a failed deployment's error quotes. */
const QUOTED_LINES = 10;
const QUOTED_BYTES = 500;

type RunDeps = ApplyDeps;

/**
 * Starts the release command of a deployment, or records how far it is (docs/jobs.md#release-command). Returns whether the
 * service has to be planned again at once.
 */
export async function runReleaseCommand(
  deps: RunDeps,
  serviceId: string,
  deploymentId: string,
): Promise<boolean> {
  const [row, found] = await Promise.all([
    findRelease(deps.pool, deploymentId),
    sql.findReleaseCommand(deps.pool, deploymentId),
  ]);
  if (!row || !found) return false;
  if (found.started) return follow(deps, row);
  try {
    return await start(deps, serviceId, row, found.command);
  } catch (error) {
    if (!(error instanceof RuntimeRefusal)) throw error;
    const notice = newNotice(error.stage, error.code, error.message);
    return failDeployment(deps.pool, deps.log, deploymentId, notice);
  }
}

/** Ends the command of a deployment if it still runs, and removes what is left of it. */
export async function removeReleaseCommand(
  { pool, runtime }: Pick<RunDeps, "pool" | "runtime">,
  serviceId: string,
  deploymentId: string,
): Promise<void> {
  const row = await findRelease(pool, deploymentId);
  if (row) await runtime.runs.remove(placeOf({ ...row, serviceId }));
  await sql.markRemoved(pool, deploymentId);
}

async function start(deps: RunDeps, serviceId: string, found: ReleaseRow, command: string): Promise<boolean> {
  const { pool, runtime, log } = deps;
  const { deploymentId } = found;
  const [begun, variables] = await Promise.all([
    beginApply(pool, deploymentId),
    resolveOrWarn(deps, serviceId, deploymentId),
  ]);
  if (begun === 0) return false;
  if (await waitsForAddons(deps, deploymentId, variables)) return true;
  const row = await pinImage(deps, found);
  if (!row) return false;
  const release = toRelease(row, variables, row.revision, deps.minReadySeconds);
  runtime.check({ artifact: release.artifact, command });
  await runtime.learnPlan?.(row.environmentId);
  const started = await whileLeased(deps, serviceId, async (tx) => {
    if ((await sql.markStarted(tx, deploymentId)) === 0) return false;
    await deps.images.requireToRun(tx, row.accountId, row.artifact);
    const deadlineSeconds = TIMEOUTS.releaseCommandMs / 1000 + LATER_SECONDS;
    // Last: after a crash before the commit, the run that was started is found by its name.
    const run = { name: runName(deploymentId), release, command: commandIn(row, command), deadlineSeconds };
    await runtime.runs.start(run);
    return true;
  });
  if (started) log.info({ deploymentId }, "release command started");
  return started;
}

async function follow(deps: RunDeps, row: ReleaseRow): Promise<boolean> {
  const { pool, runtime } = deps;
  const { deploymentId } = row;
  const place = placeOf(row);
  // The status before the output: of a command that has ended, all of it is there.
  const status = await runtime.runs.status(place);
  const lines = status ? await runtime.runs.output(place) : [];
  const running = status?.state === "running";
  const log = { id: deploymentId, of: "build", count: sql.countLines, pieceAt: sql.pieceAt } as const;
  const mask = await recordOutput(deps, row.serviceId, log, lines, running);
  if (running) return false;
  if (status?.state !== "succeeded") {
    const code = status?.state === "failed" ? "release_command_failed" : "release_command_lost";
    const quoted = mask
      ? (await runtime.runs.output(place, QUOTED_LINES)).map((line) => mask(line, QUOTED_BYTES))
      : [];
    return failDeployment(
      pool,
      deps.log,
      deploymentId,
      newNotice("release", code, describeEnd(status, quoted)),
    );
  }
  const finished = await whileLeased(
    deps,
    row.serviceId,
    async (tx) => (await sql.markFinished(tx, deploymentId)) > 0,
  );
  if (finished) deps.log.info({ deploymentId }, "release command succeeded");
  return finished;
}

/** Returns the sentence of a failed deployment. */
function describeEnd(status: RunStatus | undefined, quoted: string[]): string {
  const wrote = quoted.length > 0 ? ` It wrote:\n${quoted.join("\n")}` : "";
  if (status?.state !== "failed")
    return `The release command ended, and it is not known how: it, or the machine that ran it, was stopped. It was not run again, as it may have done its work in part. Deploy again to run it once more.${wrote}`;
  if (status.message !== undefined) return `The release command failed: ${status.message}${wrote}`;
  return `The release command failed with exit code ${status.exitCode ?? "unknown"}.${wrote || " It wrote nothing."}`;
}

const placeOf = ({ serviceId, environmentId, deploymentId }: ReleaseRow): RunPlace => ({
  name: runName(deploymentId),
  serviceId,
  environmentId,
});

const runName = (deploymentId: string) => `release-${deploymentId.toLowerCase().replaceAll("_", "-")}`;
