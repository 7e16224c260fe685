import { afterAll, beforeAll, expect, test } from "vitest";
import { refused } from "../../kit/testing/refusal.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { makePromo } from "../coupons/testing.ts";
import type { Cadence } from "../pricing/plans.ts";
import { buy, subscribe } from "../subscription/testing.ts";
import { startBilling, type TestBilling } from "../testing.ts";

let billing: TestBilling;
beforeAll(async () => {
  billing = await startBilling();
});
afterAll(() => billing?.stop());

/** Subscribes as previewed, and returns the preview and the amounts of the first invoice and of the first renewal. */
async function buyAsPreviewed(members: number, tierId: string, cadence: Cadence, code?: string) {
  const { stripe, clock } = billing.stripe;
  const accountId = billing.account(members);
  const owner = billing.as(accountId);
  if (code) await owner.redeemCoupon({ accountId, code });
  const preview = await owner.previewCheckout({ accountId, tierId, cadence });
  const { id } = await subscribe(billing, accountId, { tierId, cadence });
  const paid = async () => {
    const { data } = await stripe.invoices.list({ subscription: id, status: "paid", limit: 100 });
    return data.filter(({ total }) => total > 0).map(({ amount_paid }) => amount_paid / 100);
  };
  const [first] = await paid();
  expect(Math.abs(Number(preview.renewsAt!.seconds) - Date.parse(await periodEnd(id)) / 1_000)).toBeLessThan(
    60,
  );
  clock.advance(Number(preview.renewsAt!.seconds) + 2 * 3_600 - clock.now());
  const renewal = await eventually(
    "it is renewed",
    async () => (await paid()).length > 1 && (await paid())[0],
  );
  return { preview, first, renewal };
}

async function periodEnd(id: string): Promise<string> {
  const { items } = await billing.stripe.stripe.subscriptions.retrieve(id);
  const plan = items.data.find(({ price }) => price.metadata.kind === "plan");
  return new Date(plan!.current_period_end * 1_000).toISOString();
}

test.each<[string, number, string, Cadence, object | undefined, number, number]>([
  ["the plan alone", 1, "pro", "monthly", undefined, 20, 20],
  ["members of a year", 5, "pro", "annual", undefined, 400, 400],
  ["a code that holds", 12, "team", "monthly", { percent_off: 33.3, duration: "forever" }, 80.04, 80.04],
  [
    "a code for one payment",
    1,
    "pro",
    "annual",
    { amount_off: 1_999, currency: "usd", duration: "once" },
    180.01,
    200,
  ],
  [
    "a code for three months",
    4,
    "pro",
    "monthly",
    { percent_off: 50, duration: "repeating", duration_in_months: 3 },
    15,
    15,
  ],
])("of %s the first payment and the first renewal are what the preview says", async (...given) => {
  const [name, members, tierId, cadence, coupon, first, renewal] = given;
  const products = ["plan", "seat"].map((kind) => `berth_${kind}_${tierId}`);
  const code = coupon && name.replaceAll(" ", "-");
  if (code) await makePromo(billing.stripe.stripe, code, { coupon: { ...coupon, applies_to: { products } } });
  const bought = await buyAsPreviewed(members, tierId, cadence, code);
  expect([bought.first, bought.renewal]).toEqual([first, renewal]);
  const { totalUsd, renewalUsd, lines, discountUsd } = bought.preview;
  expect([totalUsd, renewalUsd]).toEqual([first, renewal]);
  const list = lines.reduce((sum, { amountUsd }) => sum + amountUsd, 0);
  expect(list - discountUsd).toBeCloseTo(totalUsd, 6);
});

test("a code for another plan is named with the reason, and is told to nobody", async () => {
  const accountId = billing.account();
  const owner = billing.as(accountId);
  const coupon = { percent_off: 50, applies_to: { products: ["berth_plan_team"] } };
  await makePromo(billing.stripe.stripe, "TEAMONLY", { coupon });
  await owner.redeemCoupon({ accountId, code: "TEAMONLY" });
  const preview = await owner.previewCheckout({ accountId, tierId: "pro" });
  expect(preview).toMatchObject({ totalUsd: 20, discountUsd: 0 });
  expect(preview.couponRefusal).toMatchObject({ code: "TEAMONLY", reason: "plan_restricted" });
  const { rows } = await billing.pool.query<{ refused: string | null }>(
    "select refused from pending_coupons where account_id = $1",
    [accountId],
  );
  expect(rows).toEqual([{ refused: null }]);
});

test("the balance pays first, and what earlier invoices still ask for is named", async () => {
  const accountId = billing.account();
  const owner = billing.as(accountId);
  const { stripe, clock } = billing.stripe;
  const { id } = await subscribe(billing, accountId);
  const customer = (await stripe.subscriptions.retrieve(id)).customer as string;
  await owner.cancelSubscription({ accountId });
  clock.advance(32 * 86_400);
  await eventually("it is over", async () => {
    const preview = owner.previewCheckout({ accountId, tierId: "pro" });
    return (await refused(preview).catch(() => "allowed")) !== "409 subscription_exists";
  });
  await stripe.customers.update(customer, { balance: -1_250 });
  const preview = await owner.previewCheckout({ accountId, tierId: "pro" });
  expect(preview).toMatchObject({ balanceUsd: -12.5, totalUsd: 7.5, renewalUsd: 20, owedUsd: 0 });
  await buy(billing, accountId);
  const [invoice] = (await stripe.invoices.list({ customer })).data;
  expect(invoice!.amount_paid).toBe(750);
});

test("nobody previews what nobody can buy", async () => {
  const accountId = billing.account();
  const preview = (tierId: string) => refused(billing.as(accountId).previewCheckout({ accountId, tierId }));
  expect(await preview("enterprise")).toBe("403 tier_not_self_serve");
  expect(await preview("gold")).toBe("422 validation_failed invalid_choice");
  await subscribe(billing, accountId);
  expect(await preview("team")).toBe("409 subscription_exists");
});
