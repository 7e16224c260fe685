import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { UsageStartedSchema, UsageStoppedSchema } from "../../../proto/gen/berth/deployer/v1/events_pb.ts";
import { newId } from "../../kit/ids.ts";
import { eventually } from "../../kit/testing/testing.ts";
import type { TestBilling } from "../testing.ts";

const DAY = 86_400;
/** A second of two large replicas beyond the allowance, in nano-USD. */
const RATE = 2 * 24_000 - 2_250;

/** Returns what so many days of two large replicas come to beyond the allowance. */
export function dueCents(days: number): number {
  return Math.round((RATE * days * DAY) / 1e7);
}

/**
 * Moves the clock on by some days, and waits until the ledger knows in which period of an account's compute it is then: the
 * provider shows the present one alone, and nobody reads it late by months.
 */
export async function advanceTo(billing: TestBilling, accountId: string, days: number): Promise<void> {
  const { clock } = billing.stripe;
  clock.advance(days * DAY);
  await eventually("the ledger knows the present period", async () => {
    const text = `select from compute_periods
      where account_id = $1 and started_at <= to_timestamp($2) and ended_at > to_timestamp($2)`;
    return (await billing.pool.query(text, [accountId, clock.now()])).rowCount === 1;
  });
}

/** Large replicas, two by default, run for so many days from a time on (s), which then have passed. */
export async function runFor(
  billing: TestBilling,
  accountId: string,
  from: number,
  days: number,
  replicas = 2,
): Promise<void> {
  const ids = { accountId, projectId: "prj_1", environmentId: "env_1", serviceId: newId("svc") };
  const service = { ...ids, serviceType: "web", intervalId: newId("uin"), size: "large", replicas };
  const at = (seconds: number) => timestampFromMs(seconds * 1_000);
  const end = Math.round(from + days * DAY);
  await billing.publish("deployer", UsageStartedSchema, accountId, { ...service, seq: 0, at: at(from) });
  billing.stripe.clock.advance(Math.max(0, end + 60 - billing.stripe.clock.now()));
  await billing.publish("deployer", UsageStoppedSchema, accountId, { ...service, seq: 1, at: at(end) });
  await eventually("the usage is recorded", async () => {
    const text = "select from usage_segments where account_id = $1 and ended_at = to_timestamp($2)";
    return (await billing.pool.query(text, [accountId, end])).rowCount === 1;
  });
}

/** Waits until so many periods of an account's compute are closed. */
export function closePeriods(billing: TestBilling, accountId: string, count: number) {
  return eventually(`${count} periods are closed`, async () => {
    const text = "select from metered_periods where account_id = $1 and due_cents is not null";
    return (await billing.pool.query(text, [accountId])).rowCount === count;
  });
}
