import type Stripe from "stripe";
import type { Pool } from "../../kit/postgres/db.ts";
import { lookupKey } from "../pricing/keys.ts";
import { type Cadence, type PaidTier, PLANS, termCents } from "../pricing/plans.ts";
import type { PriceId } from "../pricing/price-ids.ts";
import { makeOnce } from "../stripe/make-once.ts";
import type { Provider } from "../stripe/provider.ts";

type Deps = { pool: Pool; provider: Provider; priceId: PriceId };

/** Plan, cadence and members from the next period on. */
export type Planned = { tier: PaidTier; cadence: Cadence; seats: number };

/**
 * Has a subscription go on with another plan, cadence or number of members when the paid period of its plan ends, by a
 * schedule of the payment provider. Its discounts and taxes stay. Done again, it changes nothing; `name` is unique to the
 * change. Throws 502 payment_provider_unavailable.
 */
export async function putSchedule(
  { pool, provider, priceId }: Deps,
  subscription: Stripe.Subscription,
  { tier, cadence, seats }: Planned,
  name: string,
): Promise<void> {
  const plan = planItemOf(subscription);
  const version = plan.price.metadata.priceVersion;
  const planPrice = await priceId(lookupKey("plan", tier, cadence, version));
  const seatPrice = await priceId(lookupKey("seat", tier, cadence, version));
  const compute = subscription.items.data.filter(({ price }) => price.metadata.kind === "compute");
  const schedule = await readOrCreate({ pool, provider }, subscription, name);
  const same = unchanging(subscription);
  const items = [
    { price: planPrice, quantity: 1 },
    ...(seats > 0 ? [{ price: seatPrice, quantity: seats }] : []),
    ...compute.map(({ price }) => ({ price: price.id })),
  ];
  const renewalCents =
    termCents(PLANS[tier].monthlyCents, cadence) + seats * termCents(PLANS[tier].seatCents, cadence);
  await provider.ask((stripe) =>
    stripe.subscriptionSchedules.update(schedule.id, {
      end_behavior: "release",
      proration_behavior: "none",
      metadata: { tierId: tier, cadence, seats: String(seats), renewalCents: String(renewalCents) },
      phases: [
        {
          ...same,
          start_date: schedule.current_phase?.start_date ?? plan.current_period_start,
          end_date: plan.current_period_end,
          items: currentItems(subscription),
        },
        {
          ...same,
          items,
          duration: { interval: cadence === "annual" ? "year" : "month", interval_count: 1 },
        },
      ],
    }),
  );
}

/** Returns the schedule of a subscription; one that has none gets one of its current period. */
async function readOrCreate(
  deps: Pick<Deps, "pool" | "provider">,
  { id, schedule }: Stripe.Subscription,
  name: string,
): Promise<Stripe.SubscriptionSchedule> {
  if (schedule === null)
    return makeOnce(deps, `schedule:${name}`, (stripe, options) =>
      stripe.subscriptionSchedules.create({ from_subscription: id }, options),
    );
  if (typeof schedule !== "string") return schedule;
  return deps.provider.ask((stripe) => stripe.subscriptionSchedules.retrieve(schedule));
}

/** Ends the schedule of a subscription, which goes on as it is; one without a schedule is left alone. */
export async function releaseSchedule(stripe: Stripe, { schedule }: Stripe.Subscription): Promise<void> {
  if (schedule === null) return;
  const id = typeof schedule === "string" ? schedule : schedule.id;
  try {
    await stripe.subscriptionSchedules.release(id, {}, { maxNetworkRetries: 0 });
  } catch (error) {
    const found = await stripe.subscriptionSchedules.retrieve(id);
    if (found.status === "active" || found.status === "not_started") throw error;
  }
}

/**
 * Has a subscription with a schedule end with its paid period: the schedule's next phase is dropped and the end is set in
 * one request, so that one or the other holds whatever is interrupted. Then the schedule is released, and the end stays.
 * Done again, it changes nothing.
 */
export async function endWithSchedule(
  stripe: Stripe,
  schedule: Stripe.SubscriptionSchedule,
  subscription: Stripe.Subscription,
): Promise<void> {
  if (schedule.status !== "active" || !schedule.current_phase) return;
  await stripe.subscriptionSchedules.update(schedule.id, {
    end_behavior: "cancel",
    proration_behavior: "none",
    phases: [
      {
        ...unchanging(subscription),
        start_date: schedule.current_phase.start_date,
        end_date: planItemOf(subscription).current_period_end,
        items: currentItems(subscription),
      },
    ],
  });
  await stripe.subscriptionSchedules.release(
    schedule.id,
    { preserve_cancel_date: true },
    { maxNetworkRetries: 0 },
  );
}

/** Returns what no phase changes of a subscription. */
function unchanging({ discounts, automatic_tax }: Stripe.Subscription) {
  return {
    ...(discounts.length > 0 && {
      discounts: discounts.map((one) => ({ discount: typeof one === "string" ? one : one.id })),
    }),
    // A phase that does not say so may be without tax.
    automatic_tax: { enabled: automatic_tax.enabled },
    proration_behavior: "none" as const,
  };
}

const currentItems = ({ items }: Stripe.Subscription) =>
  items.data.map(({ price, quantity }) => ({ price: price.id, ...(quantity !== undefined && { quantity }) }));

/** Returns the item of a subscription that bills the plan. */
export function planItemOf({ items }: Pick<Stripe.Subscription, "items">): Stripe.SubscriptionItem {
  return items.data.find(({ price }) => price.metadata.kind === "plan")!;
}
