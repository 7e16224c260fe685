import { afterAll, beforeAll, expect, test } from "vitest";
import {
  RefundChangedSchema,
  SubscriptionChangedSchema,
} from "../../../proto/gen/berth/billing/v1/events_pb.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { startBilling, type TestBilling } from "../testing.ts";
import { subscriber } from "./testing.ts";

let billing: TestBilling;
beforeAll(async () => {
  billing = await startBilling();
});
afterAll(() => billing?.stop());

test.each(["monthly", "annual"] as const)(
  "of two subscriptions (%s) that were paid at once the later one ends and is refunded in full; the plan stays",
  async (cadence) => {
    const first = await subscriber(billing, { cadence });
    const { stripe } = billing.stripe;
    const [opened] = (await stripe.checkout.sessions.list({ customer: first.customer })).data;
    const lines = await stripe.checkout.sessions.listLineItems(opened!.id);
    const second = await stripe.checkout.sessions.create({
      mode: "subscription",
      ui_mode: "hosted_page",
      customer: first.customer,
      success_url: "https://berth.example.com/",
      line_items: lines.data.map(({ price, quantity }) => ({ price: price!.id, quantity: quantity! })),
    });
    billing.stripe.clock.advance(1);
    await billing.pay(second.url!);
    const paid = await eventually("it is refunded", async () => (await first.refunds()).length > 0);
    expect(paid).toBe(true);
    const price = cadence === "annual" ? 20_000 : 2_000;
    expect(await first.refunds()).toEqual([price]);
    const all = await stripe.subscriptions.list({ customer: first.customer, status: "all" });
    expect(all.data.map(({ id, status }) => [id === first.id, status]).toSorted()).toEqual([
      [false, "canceled"],
      [true, "active"],
    ]);
    await first.told(["refunded", BigInt(price)]);
    const [refund] = await billing.published(RefundChangedSchema, first.accountId);
    expect(refund).toMatchObject({ reason: "duplicate" });
    const changes = await billing.published(SubscriptionChangedSchema, first.accountId);
    expect(
      new Set(changes.map((change) => change.duplicate === (change.subscriptionId !== first.id))),
    ).toEqual(new Set([true]));
    const shown = await first.owner.getSubscription({ accountId: first.accountId });
    expect(shown).toMatchObject({ id: first.id, status: "active" });
    expect((await first.tiers()).at(-1)).toBe("pro");
    expect(await first.tiers()).toHaveLength(1);
  },
);
