import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import { CardExpiringSchema, PricesSupersededSchema } from "../../../proto/gen/berth/billing/v1/events_pb.ts";
import { eventOf, type OutboxEvent } from "../../kit/events/outbox.ts";
import { legacyUntil } from "../pricing/price-versions.ts";
import { termMonths } from "../pricing/terms.ts";
import type { MirroredSubscription } from "./mirror-subscription.ts";
import type { RecordedSubscription, Reminded } from "./sql.ts";
import { SUBSCRIBED } from "./statuses.ts";

/** How long before a card expires its owners hear of it: each subscription is read every night. */
const NOTICE_MS = 30 * 86_400_000;

/** What the owners of a subscription are reminded of, and the events that do it. */
export type Reminders = Reminded & { subscriptionId: string; events: OutboxEvent[] };

/**
 * Returns what will change by itself for a subscription that goes on, and was not reported yet: that its card expires
 * soon, and that its prices are superseded. `now` is in milliseconds. Pure.
 */
export function remindersOf(
  before: RecordedSubscription | undefined,
  subscription: MirroredSubscription,
  now: number,
  supersededBy = legacyUntil,
): Reminders {
  const { id: subscriptionId, accountId, status, cancelAtPeriodEnd, priceVersion } = subscription;
  const reminders: Reminders = { subscriptionId, events: [] };
  if (!SUBSCRIBED.includes(status) || cancelAtPeriodEnd) return reminders;
  const { brand = "", last4 = "", expMonth, expYear } = subscription.paymentMethod ?? {};
  // A card is good until the end of its month.
  if (expMonth && expYear && Date.UTC(expYear, expMonth) <= now + NOTICE_MS) {
    const card = `${last4} ${expYear}-${expMonth}`;
    if (before?.expiringCard !== card) {
      reminders.expiringCard = card;
      const event = { accountId, subscriptionId, brand, last4, expMonth, expYear };
      reminders.events.push(eventOf(CardExpiringSchema, accountId, event));
    }
  }
  const term = { end: subscription.currentPeriodEnd, months: termMonths(subscription.cadence) };
  const until = supersededBy(priceVersion, term);
  if (until && before?.supersededPrices !== priceVersion) {
    reminders.supersededPrices = priceVersion;
    const event = { accountId, subscriptionId, priceVersion, legacyUntil: timestampFromDate(until) };
    reminders.events.push(eventOf(PricesSupersededSchema, accountId, event));
  }
  return reminders;
}
