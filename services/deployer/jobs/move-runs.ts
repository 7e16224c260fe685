import { createPastSlow } from "../../kit/concurrency/past-slow.ts";
import type { Logger } from "../../kit/log.ts";
import { type Pool, transaction } from "../../kit/postgres/db.ts";
import { type Next, startTask } from "../../kit/tasks/task.ts";
import type { AccountImages } from "../images/account-images.ts";
import { commandIn, toRelease } from "../releases/apply/to-release.ts";
import { findLiveRelease } from "../releases/sql.ts";
import { type OutputLog, recordOutput } from "../runs/record-output.ts";
import type { RunPlace, RunStatus, Runtime } from "../runtime/port.ts";
import { MOVE_RUNS } from "../tasks.ts";
import { RuntimeRefusal } from "../terms/runtime-refusal.ts";
import { TIMEOUTS } from "../terms/timeouts.ts";
import { recordRunUsage } from "../usage/intervals.ts";
import { type ResolveVariables, VariablesUnavailable } from "../variables/variables-client.ts";
import { announceEnd } from "./announce-end.ts";
import * as sql from "./sql.ts";

/** How many runs are moved on at once, besides those that are slow, as with the registry or the cluster. */
const AT_ONCE = 10;
const MOST_AT_ONCE = 100;
/** How long no other process takes a run that one took: longer than the removal of a run takes. */
const LEASE_SECONDS = 120;
/** A run is ended at its time limit; the runtime does so this much later, if no deployer runs. */
const LATER_SECONDS = 300;
const RETRY_MS = 5_000;
const REMOVED_MS = 500;

export type MoveRunsDeps = {
  pool: Pool;
  runtime: Pick<Runtime, "runs" | "check" | "learnPlan">;
  resolve: ResolveVariables;
  images: AccountImages;
  log: Logger;
  minReadySeconds: number;
};

/**
 * Starts the runs that were asked for, follows them, and removes what is left of those that have ended
 * (docs/jobs.md#runs). A run is started in the transaction that records it, by a name that the runtime takes once: a crash
 * between the two finds it, and two processes start one. What a process leaves undone is due again when its lease ends.
 */
export function startMovingRuns(deps: MoveRunsDeps) {
  const { pool, runtime, log } = deps;

  async function start(run: sql.TakenRun): Promise<void> {
    const found = await findLiveRelease(pool, run.serviceId);
    if (!found) return end(run, { status: "failed", message: "The service has no live release." });
    const variables = await deps.resolve(run.serviceId);
    const release = toRelease(found, variables, found.revision, deps.minReadySeconds);
    const command = run.command === null ? release.command : commandIn(found, run.command);
    runtime.check({ artifact: release.artifact, command });
    await runtime.learnPlan?.(run.environmentId);
    await transaction(pool, async (tx) => {
      const owner = await sql.lockOwner(tx, run.serviceId);
      // Removed with its service, or canceled with the suspension.
      if (!owner || owner.deleting || owner.suspended) return;
      if (run.command === null && owner.busy) {
        await sql.postpone(tx, run, REMOVED_MS, "It waits until nothing is left of the run before it.");
        return;
      }
      if ((await sql.markStarted(tx, run, found.version, pauseMs(0))) === 0) return;
      if (run.type === "cron") await recordRunUsage(tx, run.serviceId);
      await deps.images.requireToRun(tx, run.accountId, release.artifact);
      const deadlineSeconds = run.timeoutSeconds + LATER_SECONDS;
      // Last: after a crash before the commit, the run that was started is found by its name.
      await runtime.runs.start({ name: nameOf(run), release, command, deadlineSeconds });
      log.info({ run: run.id, service: run.serviceId }, "a run started");
    });
  }

  async function follow(run: sql.TakenRun): Promise<void> {
    const ranMs = run.now - (run.startedAt ?? run.now);
    const status = await observe(run).catch((err) => {
      // No run waits for good: not for the values of secrets, which may be lost.
      if (ranMs < (run.timeoutSeconds + LATER_SECONDS) * 1_000) throw err;
      log.warn({ err, run: run.id }, "the rest of a run's output is lost");
      return runtime.runs.status(placeOf(run));
    });
    if (status?.state !== "running") return end(run, toEnd(status));
    if (ranMs < run.timeoutSeconds * 1_000)
      return void (await sql.postpone(
        pool,
        run,
        Math.min(pauseMs(ranMs), run.timeoutSeconds * 1_000 - ranMs),
        status.message,
      ));
    const message = `It took longer than ${run.timeoutSeconds} seconds and was ended.`;
    await end(run, { status: "timed_out", message });
  }

  /** Returns how a run stands, with its output recorded so far. */
  async function observe(run: sql.TakenRun): Promise<RunStatus | undefined> {
    // The status before the output: of a run that has ended, all of it is there.
    const status = await runtime.runs.status(placeOf(run));
    if (!status) return undefined;
    const lines = await runtime.runs.output(placeOf(run));
    await recordOutput(deps, run.serviceId, logOf(run), lines, status.state === "running");
    return status;
  }

  async function end(run: sql.TakenRun, how: sql.RunEnd): Promise<void> {
    const ended = await transaction(pool, async (tx) => {
      // Before the run, as whoever starts or cancels one does.
      if (run.type === "cron") await sql.lockOwner(tx, run.serviceId);
      const changed = await sql.markEnded(tx, run, how);
      if (changed > 0 && run.type === "cron") await recordRunUsage(tx, run.serviceId);
      if (changed > 0) await announceEnd(tx, run, how);
      return changed;
    });
    if (ended === 0) return;
    log.info({ run: run.id, service: run.serviceId, status: how.status }, "a run ended");
    task.wake();
  }

  async function remove(run: sql.TakenRun): Promise<void> {
    // What one wrote that was canceled. Its removal does not wait for the values of secrets.
    await observe(run).catch((err) => log.warn({ err, run: run.id }, "output of a run is lost"));
    await runtime.runs.remove(placeOf(run));
    await sql.markRemoved(pool, run);
  }

  async function move(run: sql.TakenRun): Promise<void> {
    try {
      if (run.status === "queued") await start(run);
      else if (run.status === "running") await follow(run);
      else await remove(run);
    } catch (error) {
      await failed(run, error);
    }
  }

  async function failed(run: sql.TakenRun, error: unknown): Promise<void> {
    const waits = run.status === "queued";
    if (waits && error instanceof RuntimeRefusal)
      return end(run, { status: "failed", message: error.message });
    const why = error instanceof VariablesUnavailable ? error.message : "It could not be started yet.";
    if (waits && run.now - run.createdAt > TIMEOUTS.queueMs)
      return end(run, {
        status: "failed",
        message: `It did not start in ${TIMEOUTS.queueMs / 60_000} minutes. ${why}`,
      });
    log.warn({ err: error, run: run.id }, "a run could not be moved on; trying again");
    await sql.postpone(pool, run, RETRY_MS, waits ? why : undefined);
  }

  async function takeSome(): Promise<Next> {
    const limit = moving.room();
    if (limit === 0) return undefined;
    const taken = await sql.takeRuns(pool, { limit, leaseSeconds: LEASE_SECONDS });
    for (const run of taken)
      moving.begin(
        move(run).catch((err) => {
          log.warn({ err, run: run.id }, "a run could not be moved on; trying again in two minutes");
        }),
      );
    if (taken.length === limit) return "more";
    const inMs = await sql.msUntilDue(pool);
    return inMs === undefined ? undefined : { inMs: Math.max(inMs, 100) };
  }

  const moving = createPastSlow({ atOnce: AT_ONCE, most: MOST_AT_ONCE }, () => task.wake());
  const task = startTask(MOVE_RUNS, takeSome, { log });
  return {
    wake: task.wake,
    /** Takes no more. What is under way is recorded if it ends soon, and done again by another process otherwise. */
    stop: () => moving.settle(task.stop()),
  };
}

/** Ends the runs of a service and removes what the runtime holds of them: nothing starts one while it is being deleted. */
export async function removeRunsOf(
  { pool, runtime }: { pool: Pool; runtime: Pick<Runtime, "runs"> },
  serviceId: string,
): Promise<void> {
  const left = await sql.listLeft(pool, serviceId);
  await Promise.all(left.map((run) => runtime.runs.remove(placeOf(run))));
}

/** Returns how a run that no longer runs ended. */
function toEnd(status: RunStatus | undefined): sql.RunEnd {
  const { state, exitCode, message } = status ?? {};
  if (state === "succeeded") return { status: "succeeded", exitCode };
  if (state === "failed") return { status: "failed", exitCode, message };
  return {
    status: "lost",
    message:
      "It ended, and it is not known how: it, or the machine that ran it, was stopped. It was not run again, as it may have done its work in part.",
  };
}

/** Returns the pause before a run is looked at again: the longer it has run, the longer. */
function pauseMs(ranMs: number): number {
  return Math.min(5_000, Math.max(1_000, ranMs / 120));
}

const placeOf = (run: Pick<sql.TakenRun, "id" | "serviceId" | "environmentId">): RunPlace => ({
  name: nameOf(run),
  serviceId: run.serviceId,
  environmentId: run.environmentId,
});

const nameOf = ({ id }: { id: string }) => id.toLowerCase().replaceAll("_", "-");

const logOf = ({ id }: { id: string }): OutputLog => ({
  id,
  of: "run",
  count: sql.countLines,
  pieceAt: (line) => line,
});
