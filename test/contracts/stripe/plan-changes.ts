import type Stripe from "stripe";
import { expect, test } from "vitest";
import {
  addPayer,
  FINALIZED_SECONDS,
  invoicesOf,
  itemOf,
  type Scenario,
  subscribe,
  useCard,
} from "./harness.ts";

/** Plans that change within a period, and with the next one. */
export function describePlanChanges(scenario: () => Scenario): void {
  /** A subscription to pro, and what changes its plan to team from a time on. */
  async function withPro() {
    const { stripe, prices } = scenario();
    const customer = await addPayer(scenario());
    const subscription = await subscribe(scenario(), customer.id);
    const plan = itemOf(subscription, prices.of("plan", "pro", "monthly"));
    const items = [{ id: plan.id, price: prices.of("plan", "team", "monthly"), quantity: 1 }];
    return { stripe, prices, customer, id: subscription.id, plan, items };
  }

  test("a larger plan charges what its preview says, and keeps the period", async () => {
    const { stripe, prices, customer, id, plan, items } = await withPro();
    const at = plan.current_period_start + 10 * 86_400;
    await customer.advanceTo(at + 60);
    const behavior = { proration_behavior: "always_invoice", proration_date: at } as const;
    const preview = await stripe.invoices.createPreview({
      subscription: id,
      subscription_details: { items, ...behavior },
    });
    expect(preview.lines.data.filter(({ amount }) => amount < 0)).toHaveLength(1);
    const changed = await stripe.subscriptions.update(id, {
      items,
      ...behavior,
      payment_behavior: "error_if_incomplete",
    });
    const [last] = await invoicesOf(stripe, id);
    expect(last).toMatchObject({
      status: "paid",
      total: preview.total,
      billing_reason: "subscription_update",
    });
    const team = itemOf(changed, prices.of("plan", "team", "monthly"));
    expect(team.current_period_end).toBe(plan.current_period_end);
  });

  test("a larger plan that the card does not pay changes nothing", async () => {
    const { stripe, customer, id, plan, items } = await withPro();
    await useCard(stripe, customer.id, "pm_card_chargeCustomerFail");
    const changed = stripe.subscriptions.update(id, {
      items,
      proration_behavior: "always_invoice",
      payment_behavior: "error_if_incomplete",
    });
    await expect(changed).rejects.toMatchObject({ type: "StripeCardError" });
    expect(itemOf(await stripe.subscriptions.retrieve(id), plan.price.id).id).toBe(plan.id);
  });

  test("a schedule changes the plan with the next period, unless it is released; it owns the end meanwhile", async () => {
    const { stripe, prices, customer, id, plan } = await withPro();
    const schedule = await plannedYear(stripe, id, prices, plan);
    const canceling = stripe.subscriptions.update(id, { cancel_at_period_end: true });
    await expect(canceling).rejects.toMatchObject({ type: "StripeInvalidRequestError" });
    await stripe.subscriptionSchedules.release(schedule);
    expect((await stripe.subscriptions.retrieve(id)).schedule).toBeNull();
    await plannedYear(stripe, id, prices, plan);
    await customer.advanceTo(plan.current_period_end + FINALIZED_SECONDS);
    const renewed = await stripe.subscriptions.retrieve(id);
    const year = itemOf(renewed, prices.of("plan", "pro", "annual"));
    expect(year.current_period_start).toBe(plan.current_period_end);
    expect(itemOf(renewed, prices.compute).current_period_start).toBe(plan.current_period_end);
    const [renewal] = await invoicesOf(stripe, id);
    expect(renewal).toMatchObject({ total: 20_000, status: "paid", billing_reason: "subscription_cycle" });
  });
}

/** Has a subscription continue with a year, by a schedule. Returns its id. */
async function plannedYear(
  stripe: Stripe,
  id: string,
  prices: Scenario["prices"],
  plan: Stripe.SubscriptionItem,
): Promise<string> {
  const schedule = await stripe.subscriptionSchedules.create({ from_subscription: id });
  const unchanging = { proration_behavior: "none" } as const;
  await stripe.subscriptionSchedules.update(schedule.id, {
    end_behavior: "release",
    phases: [
      {
        ...unchanging,
        start_date: schedule.current_phase!.start_date,
        end_date: plan.current_period_end,
        items: [{ price: plan.price.id, quantity: 1 }, { price: prices.compute }],
      },
      {
        ...unchanging,
        items: [{ price: prices.of("plan", "pro", "annual"), quantity: 1 }, { price: prices.compute }],
        duration: { interval: "year", interval_count: 1 },
      },
    ],
  });
  return schedule.id;
}
