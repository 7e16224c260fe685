import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import {
  UsageHeartbeatSchema,
  UsageResizedSchema,
  UsageStartedSchema,
  UsageStoppedSchema,
} from "../../../proto/gen/berth/deployer/v1/events_pb.ts";
import { emit } from "../../kit/events/outbox.ts";
import { newId } from "../../kit/ids.ts";
import { type Pool, type Tx, transaction } from "../../kit/postgres/db.ts";
import type { UsageChange } from "../runtime/port.ts";
import * as sql from "./sql.ts";

export type UsageStep =
  | { do: "start" | "resize"; at: number; replicas: number; size: string }
  | { do: "stop"; at: number };

/** What is known of a service's usage. Times in ms. */
export type UsageFacts = {
  /** The running interval. */
  open?: { replicas: number; size: string; seenAt: number } | null;
  /** The last change that was taken. */
  takenUntil?: number | null;
  /** Where a change does not tell it. */
  size: string;
};

/**
 * What has to happen with a service's interval for the changes that the runtime tells; pure. A change that
 * was taken already does nothing. When the changes do not reach back to the last one taken, the runtime has
 * lost what it knew: the interval ends when it was last seen, to the customer's favour.
 */
export function usageSteps(facts: UsageFacts, changes: UsageChange[]): UsageStep[] {
  const taken = facts.takenUntil ?? undefined;
  const fresh = changes.filter(({ at }) => taken === undefined || at > taken);
  const steps: UsageStep[] = [];
  let open: { replicas: number; size: string } | undefined = facts.open ?? undefined;
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
 * Takes the changes that the runtime tells of a service, in the transaction that records its state: interval
 * rows and events follow together, each change once.
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
  await sql.setTaken(tx, serviceId, last.at);
}

/** An addon whose server is not ours runs from now on. */
export async function startUsage(tx: Tx, serviceId: string): Promise<void> {
  const facts = await sql.lockUsage(tx, serviceId);
  if (facts && !facts.open) await start(tx, serviceId, { replicas: 1, size: facts.size }, facts.now);
}

/** An addon has another size from now on. */
export async function resizeUsage(tx: Tx, serviceId: string, size: string): Promise<void> {
  const facts = await sql.lockUsage(tx, serviceId);
  if (facts?.open && facts.open.size !== size)
    await resize(tx, serviceId, { replicas: facts.open.replicas, size }, facts.now);
}

/** The services stop being paid for, at `at` (ms) or now: also when they are marked as being deleted. */
export async function stopUsage(tx: Tx, serviceIds: string[], at?: number): Promise<void> {
  for (const { endedMs, ...ended } of await sql.closeIntervals(tx, serviceIds, at))
    await emit(tx, UsageStoppedSchema, ended.accountId, { ...ended, at: timestampFromMs(endedMs) });
}

/**
 * Notes that these services (and the addons that live in a server of others: those of the `shared` types) run
 * at this moment, and tells of each interval every five minutes.
 */
export async function recordHeartbeats(pool: Pool, running: string[], shared: string[]): Promise<void> {
  await sql.markSeen(pool, running, shared);
  await transaction(pool, async (tx) => {
    for (const interval of await sql.takeHeartbeats(tx))
      await emit(tx, UsageHeartbeatSchema, interval.accountId, interval);
  });
}

type Amount = { replicas: number; size: string };

async function start(tx: Tx, serviceId: string, amount: Amount, at: number): Promise<void> {
  const begun = await sql.openInterval(tx, newId("uin"), serviceId, amount, at);
  if (begun) await emit(tx, UsageStartedSchema, begun.accountId, { ...begun, at: timestampFromMs(at) });
}

async function resize(tx: Tx, serviceId: string, amount: Amount, at: number): Promise<void> {
  const resized = await sql.resizeInterval(tx, serviceId, amount, at);
  if (resized) await emit(tx, UsageResizedSchema, resized.accountId, { ...resized, at: timestampFromMs(at) });
}
