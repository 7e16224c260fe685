import type { Pool } from "../../kit/postgres/db.ts";
import type { Provider } from "../stripe/provider.ts";
import { noSubscription } from "../subscription/refusals.ts";
import { LIVE } from "../subscription/statuses.ts";
import { askFor } from "./asked.ts";
import { canceling, endingOf, requireCancelable } from "./cancelable.ts";
import { forecastAtPeriodEnd, forecastNow } from "./forecast.ts";
import { atPeriodEnd, type Ending, toEnding } from "./result.ts";

type Deps = { pool: Pool; provider: Provider };

/**
 * Returns what canceling would answer now, by the provider's clock (docs/billing.md#canceling). Changes nothing. Throws
 * 404 subscription_not_found, 409 subscription_canceling and 502 payment_provider_unavailable.
 */
export async function previewCancellation(deps: Deps, accountId: string): Promise<Ending> {
  const { id } = await requireCancelable(deps.pool, accountId);
  const asked = await askFor(deps.provider, accountId, id);
  const { mirrored, at } = asked;
  if (!mirrored || !LIVE.includes(mirrored.status)) throw noSubscription();
  if (mirrored.cancelAtPeriodEnd) throw canceling();
  if (endingOf(mirrored) === "at_period_end")
    return toEnding({ ...(await forecastAtPeriodEnd(deps, asked)), ...atPeriodEnd(mirrored), asOf: at });
  return toEnding({ ...(await forecastNow(deps, asked)), accessUntil: "now", asOf: at });
}
