import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type Stripe from "stripe";
import type { planFields } from "../../kit/plans.ts";
import { createEntitlements } from "../../kit/plans.ts";
import type { Db } from "../../kit/postgres/db.ts";
import type { ConfigOf } from "../../kit/process/config.ts";
import { chargeOf } from "../invoices/charge.ts";
import { invoiceLines } from "../invoices/invoice-lines.ts";
import { exclusiveTax, priceOf, withAllLines } from "../invoices/subscribed-lines.ts";
import { creditCents } from "../pricing/compute.ts";
import { PLANS, termCents } from "../pricing/plans.ts";
import type { PriceId } from "../pricing/price-ids.ts";
import { planItemOf } from "../schedule/put-schedule.ts";
import type { Provider } from "../stripe/provider.ts";
import { countRunningAddons } from "../usage/sql.ts";
import type { Choice, Decision } from "./decide.ts";
import { getsSmaller } from "./gets-smaller.ts";
import { upgradedItems } from "./make-change.ts";

type Deps = { pool: Db; provider: Provider; priceId: PriceId; plans: ConfigOf<typeof planFields> };

/** A decided change of a subscription, with the members of its account; times in seconds. */
export type Planned = Decision & {
  current: Choice;
  accountId: string;
  subscription: Stripe.Subscription;
  seats: number;
  /** From when time is charged. */
  at: number;
};

/** What a change of the plan charges, and when, as the API shows it. */
export type Change = Awaited<ReturnType<typeof forecastChange>>;

const usd = (cents: number) => cents / 100;
const time = (seconds: number) => timestampFromMs(seconds * 1_000);

/**
 * Returns what a change charges now, and what it costs from then on (docs/billing.md#changing-the-plan). Throws 502
 * payment_provider_unavailable.
 */
export async function forecastChange(deps: Deps, planned: Planned) {
  const { kind, to, current, subscription, seats, at, accountId } = planned;
  const { current_period_end: end } = planItemOf(subscription);
  const isLater = kind === "schedule" || (kind === "none" && !isSame(to, current));
  const effect = kind === "upgrade" || kind === "keep" ? "now" : isLater ? "period_end" : "none";
  const charged = kind === "upgrade" ? await readCharge(deps, planned) : NOTHING;
  const { monthlyCents, seatCents } = PLANS[to.tier];
  const renewal = termCents(monthlyCents, to.cadence) + seats * termCents(seatCents, to.cadence);
  const renewalTax = subscription.automatic_tax.enabled ? await readRenewalTax(deps, planned) : 0;
  return {
    effect,
    tierId: to.tier,
    cadence: to.cadence,
    effectiveAt: time(isLater ? end : at),
    asOf: time(at),
    ...charged,
    renewsAt: time(end),
    renewalUsd: usd(renewal + renewalTax),
    additionalMembers: seats,
    creditUsd: usd(creditCents(to.tier)),
    ...(await impactOf(deps, accountId, current, to)),
  };
}

const customerOf = ({ customer }: Stripe.Subscription) =>
  typeof customer === "string" ? customer : customer.id;
const isSame = (a: Choice, b: Choice) => a.tier === b.tier && a.cadence === b.cadence;

const NOTHING = { lines: [], discountUsd: 0, taxUsd: 0, balanceUsd: 0, totalUsd: 0 };

/** Returns the tax of a renewal: what the provider would add to the first payment of the same plan and members. */
async function readRenewalTax({ provider, priceId }: Deps, { subscription, to, seats }: Planned) {
  const items = (await upgradedItems(priceId, subscription, { ...to, seats }))
    .filter(({ quantity }) => quantity > 0)
    .map(({ price, quantity }) => ({ price, quantity }));
  const prices = items.map(({ price }) => price);
  const customer = customerOf(subscription);
  const first = { customer, subscription_details: { items }, automatic_tax: { enabled: true } };
  const { lines } = await provider.ask(async (stripe) =>
    withAllLines(stripe, await stripe.invoices.createPreview(first)),
  );
  const bought = lines.data.filter((line) => prices.includes(priceOf(line) ?? ""));
  return bought.reduce((sum, { taxes }) => sum + exclusiveTax(taxes), 0);
}

/** Returns what the provider would charge for a larger plan. */
async function readCharge({ provider, priceId }: Deps, { subscription, to, seats, at }: Planned) {
  const items = await upgradedItems(priceId, subscription, { ...to, seats });
  const [invoice, customer] = await provider.ask((stripe) =>
    Promise.all([
      stripe.invoices
        .createPreview({
          subscription: subscription.id,
          subscription_details: { items, proration_behavior: "always_invoice", proration_date: at },
        })
        .then((preview) => withAllLines(stripe, preview)),
      stripe.customers.retrieve(customerOf(subscription)),
    ]),
  );
  const { total, subtotal } = invoice;
  const discount = (invoice.total_discount_amounts ?? []).reduce((sum, { amount }) => sum + amount, 0);
  const charged = chargeOf(total, { cents: customer.deleted ? 0 : customer.balance });
  return {
    lines: invoiceLines(invoice).flatMap(
      ({ kind, tier, quantity, amountCents, periodStart, periodEnd, description }) =>
        periodStart && periodEnd
          ? {
              kind,
              tier: tier ?? "",
              quantity: Number(quantity ?? 0),
              amountUsd: usd(Number(amountCents)),
              periodStart,
              periodEnd,
              description: description ?? "",
            }
          : [],
    ),
    discountUsd: usd(discount),
    taxUsd: usd(total - (subtotal - discount)),
    balanceUsd: usd(charged - total),
    totalUsd: usd(charged),
  };
}

/** Returns what the account has beyond the limits of the plan, and what gets smaller with it. */
async function impactOf({ pool, plans }: Deps, accountId: string, current: Choice, to: Choice) {
  const entitlementsOf = createEntitlements(plans);
  const [before, after] = [entitlementsOf(current.tier), entitlementsOf(to.tier)];
  const warnings: string[] = [];
  const exceeded: { limit: string; allowed: number; used: number }[] = [];
  if (after.volumes < before.volumes) {
    const used = await countRunningAddons(pool, accountId);
    if (used > after.volumes) {
      exceeded.push({ limit: "addons", allowed: after.volumes, used });
      warnings.push(
        `The account runs ${used} addons, and the ${to.tier} plan allows ${after.volumes}. All keep running, but no further one can be made.`,
      );
    }
  }
  warnings.push(...getsSmaller(before, after));
  return { exceeded, warnings };
}
