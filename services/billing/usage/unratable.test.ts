import { afterAll, beforeAll, expect, test } from "vitest";
import { UsageThresholdSchema } from "../../../proto/gen/berth/billing/v1/events_pb.ts";
import { newId } from "../../kit/ids.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { FREEZE_AFTER_SECONDS } from "./closing/freeze.ts";
import { startUsage, type TestUsage } from "./testing.ts";

const DAY = 86_400;
const RETRY = 5 * 60;

let berth: TestUsage;
beforeAll(async () => {
  berth = await startUsage();
});
afterAll(() => berth?.stop());

/** Sets of what type the services of an account are; there is no price for a mainframe. */
const setType = (accountId: string, type: string) =>
  berth.pool.query("update usage_services set type = $2 where account_id = $1", [accountId, type]);

const alerts = async (accountId: string) =>
  (await berth.published(UsageThresholdSchema, accountId)).map(({ percent }) => percent);

async function billed(accountId: string): Promise<number[]> {
  const { rows } = await berth.pool.query(
    "select due_cents as cents from period_statements where account_id = $1 and billed",
    [accountId],
  );
  return rows.map(({ cents }) => cents);
}

test("an account whose usage cannot be rated holds up no other, and is told of its spend once it can", async () => {
  const [broken, sound] = [newId("acc"), newId("acc")];
  const start = berth.clock.now;
  for (const accountId of [broken, sound]) {
    const { report } = berth.interval(berth.service(accountId), { size: "large", replicas: 20 });
    await report("started", start - 2 * DAY);
    await berth.settled();
    await setType(broken, "mainframe");
    await report("stopped", start - DAY);
    await berth.settled();
  }
  await eventually("the sound one is told", async () => (await alerts(sound)).length > 0);
  await berth.advance(start + RETRY);
  expect(await alerts(broken)).toEqual([]);
  await setType(broken, "web");
  await berth.advance(start + 2 * RETRY);
  await eventually("the other one too", async () => (await alerts(broken)).length > 0);
});

test("an account whose usage cannot be rated holds up no other, and is frozen once it can", async () => {
  const [broken, sound] = [newId("acc"), newId("acc")];
  const start = Math.ceil(berth.clock.now / DAY) * DAY;
  const end = start + 30 * DAY;
  await berth.advance(start + DAY);
  for (const accountId of [broken, sound]) {
    const { report } = berth.interval(berth.service(accountId), { size: "large", replicas: 9 });
    await report("started", start);
    await report("stopped", start + DAY);
    await berth.settled();
    await berth.computePeriod(accountId, start, end);
  }
  await setType(broken, "mainframe");
  await berth.advance(end + FREEZE_AFTER_SECONDS);
  await eventually("the sound one is frozen", async () => (await billed(sound)).length === 1);
  expect(await billed(broken)).toEqual([]);
  await setType(broken, "web");
  await berth.advance(end + FREEZE_AFTER_SECONDS + RETRY);
  await eventually("the other one too", async () => (await billed(broken)).length === 1);
  expect(await billed(broken)).toEqual(await billed(sound));
});
