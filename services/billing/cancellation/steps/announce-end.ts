import { timestampDate } from "@bufbuild/protobuf/wkt";
import { emitAll } from "../../../kit/events/outbox.ts";
import type { Tx } from "../../../kit/postgres/db.ts";
import { findCustomer } from "../../accounts/sql.ts";
import { markCustomer } from "../../due/sql.ts";
import { findEndToAnnounce, findRecordedSubscriptions, setEndAnnounced } from "../../subscription/sql.ts";
import { subscriptionEvents } from "../../subscription/subscription-events.ts";

/**
 * Reports that the provider has ended a subscription, once: its refund must not be reported before it, and its webhook may
 * be late. Until that is there, the subscription and the plan are recorded as they were; the customer is due to be read.
 */
export async function announceEnd(tx: Tx, subscriptionId: string): Promise<void> {
  const found = await findEndToAnnounce(tx, subscriptionId);
  if (!found) return;
  const before = (await findRecordedSubscriptions(tx, [subscriptionId])).get(subscriptionId);
  await setEndAnnounced(tx, subscriptionId);
  const customerId = await findCustomer(tx, found.accountId);
  if (customerId !== undefined) await markCustomer(tx, customerId);
  const { coupon, currentPeriodEnd, pending: _, ...row } = found;
  const ended = { ...row, ...(coupon && { coupon }), currentPeriodEnd: timestampDate(currentPeriodEnd) };
  await emitAll(tx, subscriptionEvents(before, { ...ended, status: "canceled" }));
}
