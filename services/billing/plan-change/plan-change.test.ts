import { timestampDate, timestampFromMs } from "@bufbuild/protobuf/wkt";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { SubscriptionChangedSchema } from "../../../proto/gen/berth/billing/v1/events_pb.ts";
import { AuditRecordedSchema } from "../../../proto/gen/berth/identity/v1/events_pb.ts";
import { refused } from "../../kit/testing/refusal.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { DAY, type Subscriber, subscriber } from "../cancellation/testing.ts";
import { setMembers } from "../seats/testing.ts";
import { startBilling, type TestBilling } from "../testing.ts";

let billing: TestBilling;
beforeAll(async () => {
  billing = await startBilling();
});
afterEach(() => billing.stripe.faults.clear());
afterAll(() => billing?.stop());

const UNAVAILABLE = "502 payment_provider_unavailable";

type Asked = { tierId?: string; cadence?: string; cancelAtPeriodEnd?: boolean };

function changes({ accountId, owner }: Subscriber) {
  return {
    preview: (asked: Asked) => owner.previewSubscriptionChange({ accountId, ...asked }),
    change: (asked: Asked & { totalUsd?: number; asOf?: ReturnType<typeof timestampFromMs> }) =>
      owner.updateSubscription({ accountId, ...asked }),
    read: () => owner.getSubscription({ accountId }),
    reported: async () =>
      (await billing.published(SubscriptionChangedSchema, accountId))
        .map(({ change }) => change)
        .filter(Boolean),
    audited: async () =>
      (await billing.published(AuditRecordedSchema, accountId)).map(({ action }) => action),
    plan: async () => {
      const found = await owner.getSubscription({ accountId });
      return [found.items.find(({ kind }) => kind === "plan")?.ref, found.cadence].join(" ");
    },
  };
}

const advanceTo = (time: number) => billing.stripe.clock.advance(time - billing.stripe.clock.now());

/** Moves the clock into the hour after the end of the plan's period, and further until its invoice is paid. */
async function renew(one: Subscriber): Promise<void> {
  const { currentPeriodEnd } = await changes(one).read();
  advanceTo(timestampDate(currentPeriodEnd!).getTime() / 1_000 + 3_700);
  await billing.stripe.webhooks.flush();
}

test("a larger plan begins at once, and charges to the cent what the preview says", async () => {
  const one = await subscriber(billing, { cadence: "monthly", members: 5 });
  const { preview, change, read, reported, audited, plan } = changes(one);
  billing.stripe.clock.advance(10 * DAY);
  const shown = await preview({ tierId: "team" });
  expect(shown).toMatchObject({ effect: "now", tierId: "team", cadence: "monthly", additionalMembers: 0 });
  expect(shown).toMatchObject({ renewalUsd: 100, creditUsd: 50, exceeded: [], warnings: [] });
  // The plan and two members are returned for the rest of the month, and the larger plan is charged for it.
  expect(shown.lines.map(({ kind, tier }) => `${kind} ${tier}`)).toEqual([
    "plan pro",
    "plan team",
    "seat pro",
  ]);
  const { currentPeriodEnd } = await read();
  billing.stripe.clock.advance(60);
  const { asOf, totalUsd } = shown;
  expect(await change({ tierId: "team", totalUsd, ...(asOf && { asOf }) })).toEqual(shown);
  const [last] = await one.invoices();
  expect(last).toMatchObject({ status: "paid", amount_paid: Math.round(totalUsd * 100) });
  expect(await plan()).toBe("team monthly");
  expect((await read()).currentPeriodEnd).toEqual(currentPeriodEnd);
  await eventually("it is reported", async () => (await reported()).includes("plan_changed"));
  expect(await reported()).toEqual(["plan_changed"]);
  expect(await one.tiers()).toEqual(["pro", "team"]);
  await eventually("it is audited", async () => (await audited()).includes("subscription.change"));
  // Who requested it, and from which address, is only in the audit record.
  const kept = "select requested_by from plan_changes where account_id = $1";
  expect((await billing.pool.query(kept, [one.accountId])).rows).toEqual([{ requested_by: null }]);
  // The same again changes and charges nothing.
  expect(await change({ tierId: "team" })).toMatchObject({ effect: "none", totalUsd: 0 });
  expect(await one.invoices()).toHaveLength(2);
});

test("a smaller plan begins when the paid period ends, and can be undone until then", async () => {
  const one = await subscriber(billing, { tierId: "team", cadence: "monthly", members: 4 });
  const { preview, change, read, reported, plan } = changes(one);
  billing.stripe.clock.advance(3 * DAY);
  const shown = await preview({ tierId: "pro" });
  expect(shown).toMatchObject({
    effect: "period_end",
    totalUsd: 0,
    lines: [],
    renewalUsd: 30,
    additionalMembers: 1,
  });
  expect(shown.warnings.join(" ")).toContain("20 versions that were live");
  expect(shown.warnings.join(" ")).toContain("20 domains instead of 100");
  expect(await change({ tierId: "pro" })).toMatchObject({ effect: "period_end", renewalUsd: 30 });
  const pending = (await read()).pendingChange;
  expect(pending).toMatchObject({ tierId: "pro", cadence: "monthly" });
  expect(pending?.at).toEqual((await read()).currentPeriodEnd);
  expect(await plan()).toBe("team monthly");
  expect(await change({ tierId: "team" })).toMatchObject({ effect: "now", totalUsd: 0, renewalUsd: 100 });
  expect((await read()).pendingChange).toBeUndefined();
  await change({ tierId: "pro" });
  // A member who joins meanwhile is billed from then on: the smaller plan does not include it.
  await setMembers(billing, one.accountId, 6);
  await eventually("the member is planned", async () => {
    const { schedule } = await billing.stripe.stripe.subscriptions.retrieve(one.id, { expand: ["schedule"] });
    return (schedule as { metadata: { seats?: string } } | null)?.metadata.seats === "3";
  });
  await renew(one);
  await eventually("the smaller plan has begun", async () => (await plan()) === "pro monthly");
  await eventually("it is paid", async () => (await one.invoices())[0]?.amount_paid === 5_000);
  expect(await one.tiers()).toEqual(["pro", "team", "pro"].slice(1));
  expect((await read()).pendingChange).toBeUndefined();
  await eventually("all is reported", async () => (await reported()).length === 4);
  expect(await reported()).toEqual(["change_scheduled", "change_undone", "change_scheduled", "plan_changed"]);
});

test("another cadence begins when the period ends: a year with the next month, a month after the year", async () => {
  const one = await subscriber(billing, { cadence: "monthly" });
  const { change, plan, read } = changes(one);
  expect(await change({ cadence: "annual" })).toMatchObject({
    effect: "period_end",
    renewalUsd: 200,
    totalUsd: 0,
  });
  await renew(one);
  await eventually("the year has begun", async () => (await plan()) === "pro annual");
  await eventually("it is paid", async () => (await one.invoices())[0]?.amount_paid === 20_000);
  const { currentPeriodEnd } = await read();
  expect(await change({ cadence: "monthly" })).toMatchObject({
    effect: "period_end",
    effectiveAt: currentPeriodEnd,
  });
  expect((await read()).pendingChange).toMatchObject({ cadence: "monthly" });
});

test("a cancellation is undone until it has ended, and a pending change ends with a cancellation", async () => {
  const one = await subscriber(billing, { tierId: "team", cadence: "monthly" });
  const { change, read, reported } = changes(one);
  await change({ tierId: "pro" });
  await one.cancel();
  expect(await read()).toMatchObject({ cancelAtPeriodEnd: true });
  expect((await read()).pendingChange).toBeUndefined();
  expect(await refused(change({ tierId: "pro" }))).toBe("409 subscription_canceling");
  expect(await change({ cancelAtPeriodEnd: false })).toMatchObject({
    effect: "now",
    totalUsd: 0,
    renewalUsd: 100,
  });
  expect(await read()).toMatchObject({ cancelAtPeriodEnd: false, status: "active" });
  expect((await one.atStripe()).cancel_at_period_end).toBe(false);
  await eventually("it is reported", async () => (await reported()).includes("cancellation_undone"));
  expect(await change({ cancelAtPeriodEnd: false })).toMatchObject({ effect: "none" });
  await renew(one);
  await one.cancel();
  await renew(one);
  await one.isFree();
  expect(await refused(change({ cancelAtPeriodEnd: false }))).toBe("404 subscription_not_found");
});

test("the undo of a cancellation also clears a date that staff set at the provider", async () => {
  const one = await subscriber(billing, { cadence: "monthly" });
  const { change, read } = changes(one);
  const at = billing.stripe.clock.now() + 90 * DAY;
  await billing.stripe.stripe.subscriptions.update(one.id, { cancel_at: at });
  await eventually("it is shown as canceled", async () => (await read()).cancelAtPeriodEnd);
  expect(await change({ cancelAtPeriodEnd: false })).toMatchObject({ effect: "now" });
  expect(await read()).toMatchObject({ cancelAtPeriodEnd: false, status: "active" });
  expect((await one.atStripe()).cancel_at).toBe(null);
});

test("a cancellation of which any request fails leaves the pending change, or cancels", async () => {
  const requests = ["", "/release"].map((path) => `/v1/subscription_schedules/*${path}`);
  for (const path of [...requests, "/v1/subscriptions/*"]) {
    const one = await subscriber(billing, { tierId: "team", cadence: "monthly" });
    const { change, read } = changes(one);
    await change({ tierId: "pro" });
    billing.stripe.faults.add({ kind: "refuse", method: "POST", path, times: 9 });
    await one.cancel().catch(() => {});
    billing.stripe.faults.clear();
    await billing.stripe.webhooks.flush();
    await eventually("either is shown", async () => {
      const { pendingChange, cancelAtPeriodEnd } = await read();
      return (pendingChange !== undefined) !== cancelAtPeriodEnd;
    });
    await one.cancel().catch(() => {});
    expect(await change({ cancelAtPeriodEnd: false })).toMatchObject({ effect: "now", renewalUsd: 100 });
    const { schedule, cancel_at: end } = await one.atStripe();
    expect([schedule, end]).toEqual([null, null]);
  }
});

test("a year on a larger plan is refunded from its own start; what was left of the smaller one paid for it", async () => {
  const one = await subscriber(billing);
  const { change } = changes(one);
  const [item] = (await one.atStripe()).items.data;
  const days = (item!.current_period_end - item!.current_period_start) / DAY;
  billing.stripe.clock.advance(100 * DAY);
  const { totalUsd } = await change({ tierId: "team" });
  billing.stripe.clock.advance(20 * DAY);
  const paid = 20_000 + Math.round(totalUsd * 100);
  const shown = await one.preview();
  expect(await one.cancel()).toMatchObject({ refund: shown.refund });
  const refunds = (await one.refunds()).reduce((sum, cents) => sum + cents, 0);
  // Of the smaller plan 100 days of the year are used up, and of the larger one a month at its monthly price.
  expect(paid - refunds).toBe(10_000 + Math.round((20_000 * 100) / days));
});

test("members who left before a larger plan began are not returned, neither then nor when the year is canceled", async () => {
  const one = await subscriber(billing, { members: 5 });
  const { change, read } = changes(one);
  await setMembers(billing, one.accountId, 3);
  await eventually("no member is billed", async () =>
    (await read()).items.every(({ kind }) => kind !== "seat"),
  );
  billing.stripe.clock.advance(100 * DAY);
  const { lines, totalUsd } = await change({ tierId: "team" });
  expect(lines.map(({ kind }) => kind)).toEqual(["plan", "plan"]);
  billing.stripe.clock.advance(20 * DAY);
  await one.cancel();
  const refunds = (await one.refunds()).reduce((sum, cents) => sum + cents, 0);
  // What the larger plan cost, less a month of it: what was left of the smaller one paid for it.
  const larger = lines.find(({ tier }) => tier === "team")!.amountUsd;
  expect(refunds).toBe(Math.round(larger * 100) - 10_000);
  expect(totalUsd).toBeLessThan(larger);
});

test("a declined payment changes nothing", async () => {
  const one = await subscriber(billing, { cadence: "monthly", card: "4000000000000341" });
  const { change, plan, audited } = changes(one);
  expect(await refused(change({ tierId: "team" }))).toBe("409 payment_declined");
  expect(await plan()).toBe("pro monthly");
  expect((await one.invoices()).map(({ status }) => status)).toEqual(["paid"]);
  expect(await audited()).not.toContain("subscription.change");
});

test("what cannot be changed is refused with what to do", async () => {
  const one = await subscriber(billing, { cadence: "monthly" });
  const { change, preview } = changes(one);
  expect(await refused(change({}))).toBe("422 validation_failed empty_patch");
  expect(await refused(change({ tierId: "free" }))).toBe("422 validation_failed invalid_choice");
  expect(await refused(change({ tierId: "enterprise" }))).toBe("403 tier_not_self_serve");
  expect(await refused(change({ cancelAtPeriodEnd: true }))).toBe("422 validation_failed invalid_choice");
  expect(await refused(change({ cancelAtPeriodEnd: false, tierId: "team" }))).toBe(
    "422 validation_failed one_change",
  );
  expect(await refused(change({ tierId: "team", totalUsd: 1 }))).toBe("409 preview_outdated");
  const old = timestampFromMs((billing.stripe.clock.now() - 700) * 1_000);
  expect(await refused(change({ tierId: "team", asOf: old }))).toBe("409 preview_outdated");
  await change({ cadence: "annual" });
  expect(await refused(preview({ tierId: "team" }))).toBe("409 plan_change_pending");
  const accountId = billing.account();
  const stranger = billing.as(accountId);
  expect(await refused(stranger.updateSubscription({ accountId, tierId: "pro" }))).toBe(
    "404 subscription_not_found",
  );
  const failing = await subscriber(billing, { cadence: "monthly", card: "4000000000000341" });
  billing.stripe.clock.advance(32 * DAY);
  await eventually("it is past due", async () => (await changes(failing).read()).status === "past_due");
  expect(await refused(changes(failing).change({ tierId: "team" }))).toBe("409 payment_due");
});

test("in the hour of a renewal, a larger plan waits for its invoice", async () => {
  const one = await subscriber(billing, { cadence: "monthly" });
  const { currentPeriodEnd } = await changes(one).read();
  advanceTo(timestampDate(currentPeriodEnd!).getTime() / 1_000 + 60);
  expect(await refused(changes(one).preview({ tierId: "team" }))).toBe("409 renewal_under_way");
  billing.stripe.clock.advance(3_700);
  expect(await changes(one).change({ tierId: "team" })).toMatchObject({ effect: "now" });
});

test("an answer that was lost is found out: the plan changes once, and is charged once", async () => {
  const one = await subscriber(billing, { cadence: "monthly" });
  const { change, plan } = changes(one);
  const at = { method: "POST", path: `/v1/subscriptions/${one.id}` };
  billing.stripe.faults.add({ kind: "refuse", ...at, times: 2 });
  expect(await refused(change({ tierId: "team" }))).toBe(UNAVAILABLE);
  expect(await plan()).toBe("pro monthly");
  billing.stripe.faults.add({ kind: "lose_answer", ...at, times: 2 });
  await change({ tierId: "team" }).catch(() => {});
  billing.stripe.faults.clear();
  await change({ tierId: "team" });
  await eventually("the plan has changed", async () => (await plan()) === "team monthly");
  expect(await one.invoices()).toHaveLength(2);
});

test("two owners change the plan at once: it is charged once", async () => {
  const one = await subscriber(billing, { cadence: "monthly" });
  const other = await billing.startOne();
  const { accountId } = one;
  const answers = await Promise.all([
    one.owner.updateSubscription({ accountId, tierId: "team" }),
    billing.as(accountId, other.port).updateSubscription({ accountId, tierId: "team" }),
  ]);
  await other.stop();
  expect(answers.map(({ effect }) => effect).toSorted()).toEqual(["none", "now"]);
  expect(await one.invoices()).toHaveLength(2);
});
