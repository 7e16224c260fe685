import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import {
  GraceStageReachedSchema,
  ServicesResumedSchema,
  SuspensionChangedSchema,
} from "../../../proto/gen/berth/billing/v1/events_pb.ts";
import { emitAll, eventOf } from "../../kit/events/outbox.ts";
import type { Logger } from "../../kit/log.ts";
import { attempt, type Pool, type Tx, transaction } from "../../kit/postgres/db.ts";
import { startTask } from "../../kit/tasks/task.ts";
import { SUSPEND_SERVICES } from "../tasks.ts";
import { type Next, nextState, type Recorded } from "./next-state.ts";
import * as sql from "./sql.ts";

type Deps = { pool: Pool; log: Logger; graceSeconds: number; now: () => number };

/** After how long an account is looked at again that could not be: until then it holds up no other. */
const RETRY_SECONDS = 5 * 60;

/**
 * Begins and ends grace periods, and says whose services beyond the allowance are stopped
 * (docs/billing.md#after-a-plan-ends), until it is stopped. `now` is in milliseconds.
 */
export function startSuspensions(deps: Deps) {
  return startTask(SUSPEND_SERVICES, (signal) => checkAccounts(deps, signal), deps);
}

/** Looks at the accounts that are due, each once among several replicas. */
async function checkAccounts(deps: Deps, signal: AbortSignal): Promise<void> {
  while (!signal.aborted && (await transaction(deps.pool, (tx) => checkOne(tx, deps))));
}

async function checkOne(tx: Tx, { log, graceSeconds, now }: Deps): Promise<boolean> {
  const at = Math.floor(now() / 1_000);
  const recorded = await sql.takeAccount(tx, at);
  if (!recorded) return false;
  const { accountId } = recorded;
  const failure = await attempt(tx, () => advance(tx, recorded, at, graceSeconds));
  if (failure === undefined) return true;
  log.error(
    { err: failure, accountId },
    "the grace period of an account could not be checked; it is retried",
  );
  await sql.setCheckAt(tx, accountId, at + RETRY_SECONDS);
  return true;
}

async function advance(
  tx: Tx,
  recorded: Recorded & { accountId: string; hadPlan: boolean },
  at: number,
  graceSeconds: number,
): Promise<void> {
  const { accountId, hadPlan } = recorded;
  const next = nextState(recorded, at, graceSeconds);
  await sql.setState(tx, accountId, next);
  await emitAll(tx, eventsOf(accountId, hadPlan, next, at));
}

function eventsOf(accountId: string, owed: boolean, next: Next, at: number) {
  const { reason, revision, announces, stage, resumes } = next;
  const graceUntil = next.graceUntil === null ? undefined : toTimestamp(next.graceUntil);
  return [
    ...(announces
      ? [
          eventOf(SuspensionChangedSchema, accountId, {
            ...{ accountId, reason: reason ?? "", revision: BigInt(revision) },
            ...(graceUntil && { graceUntil }),
          }),
        ]
      : []),
    ...(stage && graceUntil
      ? [eventOf(GraceStageReachedSchema, accountId, { accountId, stage, graceUntil, owed })]
      : []),
    ...(resumes
      ? [eventOf(ServicesResumedSchema, accountId, { accountId, reason: resumes, at: toTimestamp(at) })]
      : []),
  ];
}

const toTimestamp = (seconds: number) => timestampFromMs(seconds * 1_000);
