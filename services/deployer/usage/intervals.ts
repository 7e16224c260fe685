import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import {
  UsageHeartbeatSchema,
  UsageResizedSchema,
  UsageStartedSchema,
  UsageStoppedSchema,
} from "../../../proto/gen/berth/deployer/v1/events_pb.ts";
import { emit, emitAll, eventOf } from "../../kit/events/outbox.ts";
import { newId } from "../../kit/ids.ts";
import { type Pool, type Tx, transaction } from "../../kit/postgres/db.ts";
import type { UsageChange } from "../terms/usage-change.ts";
import * as sql from "./sql.ts";

export type UsageStep = ({ do: "start" | "resize"; at: number } & sql.Amount) | { do: "stop"; at: number };

/** What the database says of a service's usage. Times in ms. */
export type UsageFacts = {
  /** The open interval. */
  open?: (sql.Amount & { seenAt: number }) | null;
  /** The time of the last change that was recorded. */
  recordedUntil?: number | null;
  /** For changes that do not name their size. */
  size: string;
};

/**
 * Returns the steps that bring a service's interval up to date with the changes that the runtime reports; pure. Changes
 * that were recorded before add no steps. When the changes do not reach back to the last recorded one, the runtime
 * has lost its journal: the interval ends when it was last seen, in the customer's favour.
 */
export function usageSteps(facts: UsageFacts, changes: UsageChange[]): UsageStep[] {
  const recorded = facts.recordedUntil ?? undefined;
  const fresh = changes.filter(({ at }) => recorded === undefined || at > recorded);
  const steps: UsageStep[] = [];
  let open: sql.Amount | undefined = facts.open ?? undefined;
  if (facts.open && fresh.length > 0 && fresh.length === changes.length) {
    steps.push({ do: "stop", at: Math.min(facts.open.seenAt, fresh[0]!.at) });
    open = undefined;
  }
  for (const { at, replicas, size = facts.size } of fresh) {
    if (replicas === 0) {
      if (open) steps.push({ do: "stop", at });
      open = undefined;
    } else {
      if (!open) steps.push({ do: "start", at, replicas, size });
      else if (open.replicas !== replicas || open.size !== size)
        steps.push({ do: "resize", at, replicas, size });
      open = { replicas, size };
    }
  }
  return steps;
}

/**
 * Records the changes that the runtime reports of a service in its interval and emits their events, each change once.
 * To be called in the transaction that records the service's state.
 */
export async function recordUsage(tx: Tx, serviceId: string, changes: UsageChange[] = []): Promise<void> {
  const last = changes.at(-1);
  const facts = last && (await sql.lockUsage(tx, serviceId));
  if (!facts) return;
  for (const step of usageSteps(facts, changes)) {
    const at = Math.min(step.at, facts.now);
    if (step.do === "start") await start(tx, serviceId, step, at);
    else if (step.do === "resize") await resize(tx, serviceId, step, at);
    else await stopUsage(tx, [serviceId], at);
  }
  await sql.setRecordedUntil(tx, serviceId, last.at);
}

/** Takes note of changes that the runtime reports and that are not counted. */
export async function passUsage(tx: Tx, serviceId: string, changes: UsageChange[] = []): Promise<void> {
  const last = changes.at(-1);
  if (last) await sql.setRecordedUntil(tx, serviceId, last.at);
}

/** Brings the interval of a cron service up to date with its runs that are under way; to be called where one begins or ends. */
export async function recordRunUsage(tx: Tx, serviceId: string): Promise<void> {
  const facts = await sql.lockUsage(tx, serviceId);
  if (!facts) return;
  const { open, size, now } = facts;
  const replicas = await sql.countRunning(tx, serviceId);
  if (replicas === 0) await stopUsage(tx, [serviceId]);
  else if (!open) await start(tx, serviceId, { replicas, size }, now);
  else if (open.replicas !== replicas || open.size !== size)
    await resize(tx, serviceId, { replicas, size }, now);
}

/** Opens the interval of an addon that lives in a server which the deployer does not run. */
export async function startUsage(tx: Tx, serviceId: string): Promise<void> {
  const facts = await sql.lockUsage(tx, serviceId);
  if (facts && !facts.open) await start(tx, serviceId, { replicas: 1, size: facts.size }, facts.now);
}

/** Changes the size in a service's open interval, from now on. */
export async function resizeUsage(tx: Tx, serviceId: string, size: string): Promise<void> {
  const facts = await sql.lockUsage(tx, serviceId);
  if (facts?.open && facts.open.size !== size)
    await resize(tx, serviceId, { replicas: facts.open.replicas, size }, facts.now);
}

/** Ends the intervals of services at `at` (ms) or now, also of services that are being deleted. */
export async function stopUsage(tx: Tx, serviceIds: string[], at?: number): Promise<void> {
  const closed = await sql.closeIntervals(tx, serviceIds, at);
  const events = closed.map(({ endedMs, ...ended }) =>
    eventOf(UsageStoppedSchema, ended.accountId, { ...ended, at: timestampFromMs(endedMs) }),
  );
  await emitAll(tx, events);
}

/**
 * Records that these services and all of the `shared` types that have an interval run now, and emits a heartbeat event of each
 * interval every five minutes.
 */
export async function recordHeartbeats(pool: Pool, running: string[], shared: string[]): Promise<void> {
  await transaction(pool, async (tx) => {
    const due = await sql.takeHeartbeats(tx, running, shared);
    await emitAll(
      tx,
      due.map((one) => eventOf(UsageHeartbeatSchema, one.accountId, one)),
    );
  });
}

async function start(tx: Tx, serviceId: string, amount: sql.Amount, at: number): Promise<void> {
  const begun = await sql.openInterval(tx, newId("uin"), serviceId, amount, at);
  if (begun) await emit(tx, UsageStartedSchema, begun.accountId, { ...begun, at: timestampFromMs(at) });
}

async function resize(tx: Tx, serviceId: string, amount: sql.Amount, at: number): Promise<void> {
  const resized = await sql.resizeInterval(tx, serviceId, amount, at);
  if (resized) await emit(tx, UsageResizedSchema, resized.accountId, { ...resized, at: timestampFromMs(at) });
}
