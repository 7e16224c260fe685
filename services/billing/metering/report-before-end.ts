import type Stripe from "stripe";
import type { Pool } from "../../kit/postgres/db.ts";
import { toCents } from "../money/nano-usd.ts";
import { creditCents } from "../pricing/compute.ts";
import type { Provider } from "../stripe/provider.ts";
import type { Period } from "../usage/periods.ts";
import { ratePeriod } from "../usage/read-usage.ts";
import { grantCredit, reportAmount } from "./provider-usage.ts";
import * as sql from "./sql.ts";

/** A subscription with compute, as far as its compute depends on it. */
export type Metered = { subscriptionId: string; accountId: string; customerId: string; tier: string };

/** What compute came to in a period: all, and what is left of it after the plan's credit. In cents. */
export type DueCompute = { dueCents: number; netCents: number };

/** Returns what compute of a period has come to by a time (s): what it was closed with, or what the ledger says so far. */
export async function dueCompute(
  pool: Pool,
  { subscriptionId, accountId, tier: present }: Metered,
  { start, end }: Period,
  at: number,
): Promise<DueCompute> {
  const tier = (await sql.findPeriodTier(pool, subscriptionId, start)) ?? present;
  const closed = await sql.findClosedCents(pool, subscriptionId, start);
  const dueCents =
    closed ?? Number(toCents((await ratePeriod(pool, accountId, { start, end, tier }, at)).rated.due));
  return { dueCents, netCents: Math.max(0, dueCents - creditCents(tier)) };
}

/** Returns the current period of a subscription's compute item; undefined without one. */
export function currentPeriod({ items }: Pick<Stripe.Subscription, "items">): Period | undefined {
  const item = items.data.find(({ price }) => price.metadata.kind === "compute");
  return item && { start: item.current_period_start, end: item.current_period_end };
}

/**
 * Reports what periods of a subscription have come to by a time (s), and grants what the plan pays of them: to be called
 * before the subscription is ended at once, which makes its last invoices final. Safe to repeat.
 */
export async function reportBeforeEnd(
  deps: { pool: Pool; provider: Provider },
  metered: Metered,
  periods: Period[],
  at: number,
): Promise<void> {
  for (const period of periods) {
    const { dueCents, netCents } = await dueCompute(deps.pool, metered, period, at);
    await grantCredit(deps, { ...metered, start: period.start }, dueCents - netCents);
    // The running period is reported by the provider's clock, which need not be that of this machine.
    const by = period.end > at ? {} : { at: period.end - 1 };
    await reportAmount(deps.provider, metered, { cents: dueCents, ...by });
  }
}
