import type { Pool } from "../../kit/postgres/db.ts";
import { METER } from "../pricing/seed.ts";
import { nameAt } from "../stripe/installation.ts";
import { makeOnce } from "../stripe/make-once.ts";
import type { Provider } from "../stripe/provider.ts";
import type { MeteredPeriod } from "./sql.ts";

/** Compute is reported in hundredths of a cent, always whole cents of them: the provider has nothing to round. */
const UNITS_PER_CENT = 100;
const GRANTS = 100;

/**
 * Reports what a period has come to by a time (s), before the plan's credit; without a time, by now, whatever time it is
 * for the provider. The meter counts the last report of a period, by its time, so that one that is repeated changes
 * nothing.
 */
export async function reportAmount(
  provider: Provider,
  { customerId }: Pick<MeteredPeriod, "customerId">,
  { cents, at }: { cents: number; at?: number },
): Promise<void> {
  await provider.ask((stripe) =>
    stripe.billing.meterEvents.create({
      event_name: nameAt(provider.installation, METER),
      payload: { stripe_customer_id: customerId, value: String(cents * UNITS_PER_CENT) },
      ...(at !== undefined && { timestamp: at }),
    }),
  );
}

/**
 * Grants what the plan pays of a period, less what was granted before: as much as the period uses, so that nothing is
 * left for the next one. Safe to repeat.
 */
export async function grantCredit(
  deps: { pool: Pool; provider: Provider },
  { subscriptionId, customerId, start }: Pick<MeteredPeriod, "subscriptionId" | "customerId" | "start">,
  cents: number,
): Promise<void> {
  if (cents === 0) return;
  const period = `${subscriptionId}:${start}`;
  const { data } = await deps.provider.ask((stripe) =>
    stripe.billing.creditGrants.list({ customer: customerId, limit: GRANTS }),
  );
  const granted = data
    .filter(({ metadata }) => metadata.period === period)
    .reduce((sum, { amount }) => sum + (amount.monetary?.value ?? 0), 0);
  if (granted >= cents) return;
  await makeOnce(deps, `grant:${period}:${granted}`, (stripe, options) =>
    stripe.billing.creditGrants.create(
      {
        customer: customerId,
        amount: { type: "monetary", monetary: { currency: "usd", value: cents - granted } },
        applicability_config: { scope: { price_type: "metered" } },
        category: "promotional",
        name: "Compute that the plan includes",
        metadata: { period },
      },
      options,
    ),
  );
}
