import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import { CardExpiringSchema, PricesSupersededSchema } from "../../../proto/gen/berth/billing/v1/events_pb.ts";
import { emit } from "../../kit/events/outbox.ts";
import type { Tx } from "../../kit/postgres/db.ts";
import { legacyUntil } from "../catalog/price-versions.ts";
import type { MirroredSubscription } from "./mirror.ts";
import { SUBSCRIBED, setExpiringCard, setSupersededPrices } from "./sql.ts";

/** How long before a card expires its owners hear of it: each subscription is read every night. */
const NOTICE_MS = 30 * 86_400_000;

/**
 * Reports, each once, what will change by itself for a subscription that goes on: that its card expires soon, and that
 * its prices are superseded. `now` is in milliseconds.
 */
export async function recordReminders(
  tx: Tx,
  subscription: MirroredSubscription,
  now: number,
  supersededBy = legacyUntil,
): Promise<void> {
  const { id: subscriptionId, accountId, status, cancelAtPeriodEnd, priceVersion } = subscription;
  if (!SUBSCRIBED.includes(status) || cancelAtPeriodEnd) return;
  const { brand, last4, expMonth, expYear } = subscription.paymentMethod ?? {};
  // A card is good until the end of its month.
  const isExpiring = expMonth && expYear && Date.UTC(expYear, expMonth) <= now + NOTICE_MS;
  if (isExpiring && (await setExpiringCard(tx, subscriptionId, `${last4} ${expYear}-${expMonth}`)) > 0)
    await emit(tx, CardExpiringSchema, accountId, {
      accountId,
      subscriptionId,
      ...{ brand: brand ?? "", last4: last4 ?? "", expMonth, expYear },
    });
  const term = { end: subscription.currentPeriodEnd, months: subscription.cadence === "annual" ? 12 : 1 };
  const until = supersededBy(priceVersion, term);
  if (until && (await setSupersededPrices(tx, subscriptionId, priceVersion)) > 0)
    await emit(tx, PricesSupersededSchema, accountId, {
      accountId,
      subscriptionId,
      priceVersion,
      legacyUntil: timestampFromDate(until),
    });
}
