import { timestampMs } from "@bufbuild/protobuf/wkt";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  GraceStageReachedSchema,
  ServicesResumedSchema,
  SuspensionChangedSchema,
} from "../../../proto/gen/berth/billing/v1/events_pb.ts";
import { holdCommits } from "../../kit/testing/hold-commits.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { DAY, subscriber } from "../cancellation/testing.ts";
import { subscribe } from "../subscription/testing.ts";
import { startBilling, type TestBilling } from "../testing.ts";

let billing: TestBilling;
let other: Awaited<ReturnType<TestBilling["startOne"]>>;
beforeAll(async () => {
  billing = await startBilling();
  // Two replicas look at the same accounts.
  other = await billing.startOne();
});
afterAll(async () => {
  await other?.stop();
  await billing?.stop();
});

const now = () => billing.stripe.clock.now();
const advance = (seconds: number) => billing.stripe.clock.advance(seconds);

const stages = async (accountId: string) =>
  (await billing.published(GraceStageReachedSchema, accountId)).map(({ stage }) => stage);

/** Waits until billing has announced so many stages of an account's grace period. Returns them. */
const toldStages = (accountId: string, count: number) =>
  eventually(`${count} stages are announced`, async () => {
    const found = await stages(accountId);
    return found.length >= count && found;
  });

/** Waits until billing has announced a revision of what an account may run. Returns the announcement. */
const announced = (accountId: string, revision: number) =>
  eventually(`revision ${revision} is announced`, async () =>
    (await billing.published(SuspensionChangedSchema, accountId)).findLast(
      (event) => Number(event.revision) === revision,
    ),
  );

test("after a plan ends: seven days with notices, then services are stopped, until a plan pays for them again", async () => {
  const owner = await subscriber(billing);
  const { accountId } = owner;
  const stranger = await subscriber(billing);
  advance(20 * DAY);
  await owner.cancel();
  await owner.isFree();
  expect(await toldStages(accountId, 1)).toEqual(["started"]);
  const grace = await announced(accountId, 1);
  expect(grace.reason).toBe("");
  const until = timestampMs(grace.graceUntil!) / 1_000;
  expect(until - now()).toBeGreaterThan(6.9 * DAY);
  expect(until - now()).toBeLessThanOrEqual(7 * DAY);
  advance(3.6 * DAY);
  expect(await toldStages(accountId, 2)).toEqual(["started", "halfway"]);
  advance(2.5 * DAY);
  expect(await toldStages(accountId, 3)).toEqual(["started", "halfway", "last_day"]);
  advance(until - now());
  expect(await toldStages(accountId, 4)).toEqual(["started", "halfway", "last_day", "over"]);
  expect(await announced(accountId, 2)).toMatchObject({ reason: "free_plan", graceUntil: grace.graceUntil });

  await subscribe(billing, accountId);
  const resumed = await announced(accountId, 3);
  expect(resumed).toMatchObject({ reason: "" });
  expect(resumed.graceUntil).toBeUndefined();
  await eventually("it is said", async () => {
    const told = await billing.published(ServicesResumedSchema, accountId);
    return told.length === 1 && told[0]!.reason === "free_plan";
  });
  expect(await billing.published(SuspensionChangedSchema, stranger.accountId)).toEqual([]);
});

test("an owner who subscribes within the grace period hears of no stop, and a later end begins a new one", async () => {
  const { accountId, cancel, isFree } = await subscriber(billing);
  advance(20 * DAY);
  await cancel();
  await isFree();
  await announced(accountId, 1);
  await subscribe(billing, accountId, { cadence: "annual" });
  expect(await announced(accountId, 2)).toMatchObject({ reason: "" });
  advance(8 * DAY);
  await billing.as(accountId).cancelSubscription({ accountId });
  const again = await announced(accountId, 3);
  expect(timestampMs(again.graceUntil!) / 1_000 - now()).toBeGreaterThan(6.9 * DAY);
  expect(await toldStages(accountId, 2)).toEqual(["started", "started"]);
  expect(await billing.published(ServicesResumedSchema, accountId)).toEqual([]);
});

test("a replica that dies before it has committed what it announces changes nothing: the other announces it, once", async () => {
  const { accountId, cancel, isFree } = await subscriber(billing);
  advance(20 * DAY);
  const held = await holdCommits(
    billing,
    "update",
    "suspensions",
    `new.account_id = '${accountId}' and new.revision = 1`,
  );
  await cancel();
  await held.reached();
  expect(await stages(accountId)).toEqual([]);
  await held.release("lost");
  await isFree();
  expect(await toldStages(accountId, 1)).toEqual(["started"]);
  expect(await announced(accountId, 1)).toMatchObject({ reason: "" });
});

test("a plan whose end an earlier version of billing records has the grace period as well", async () => {
  const accountId = billing.account();
  await billing.pool.query("insert into accounts (id, tier, tier_revision) values ($1, 'team', 1)", [
    accountId,
  ]);
  await billing.pool.query("update accounts set tier = 'free', tier_revision = 2 where id = $1", [accountId]);
  expect(await announced(accountId, 1)).toMatchObject({ reason: "" });
  expect(await toldStages(accountId, 1)).toEqual(["started"]);
});
