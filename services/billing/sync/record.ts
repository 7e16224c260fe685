import { emitAll } from "../../kit/events/outbox.ts";
import type { Tx } from "../../kit/postgres/db.ts";
import { changeTier } from "../accounts/tier.ts";
import { requestCancellation } from "../cancellation/sql.ts";
import { dropAppliedCoupon } from "../coupons/applied-coupon.ts";
import { putRedemptions } from "../coupons/sql.ts";
import { putSeatCheck } from "../due/seat-checks-sql.ts";
import { findRecordedInvoices, putInvoices } from "../invoices/sql.ts";
import { recordPeriods } from "../metering/periods.ts";
import { listStarts, putInvoiced } from "../metering/sql.ts";
import { findRecordedSubscriptions, putSubscription, setReminded } from "../subscription/sql.ts";
import type { Before, Changes } from "./changes.ts";
import type { Found } from "./read-customer.ts";

/** Returns what is recorded of what was found, locked until the transaction ends. */
export async function readRecorded(tx: Tx, { subscriptions, invoices }: Found): Promise<Before> {
  const ids = subscriptions.map(({ id }) => id);
  return {
    subscriptions: await findRecordedSubscriptions(tx, ids),
    invoices: await findRecordedInvoices(
      tx,
      invoices.map(({ id }) => id),
    ),
    periodStarts: await listStarts(tx, ids),
  };
}

/** Records the changes of a customer, with the events and the work that follow from them. */
export async function record(tx: Tx, accountId: string, changes: Changes): Promise<void> {
  for (const subscription of changes.subscriptions) {
    await putSubscription(tx, subscription);
    await dropAppliedCoupon(tx, subscription);
  }
  for (const reminders of changes.reminders) await setReminded(tx, reminders.subscriptionId, reminders);
  await recordPeriods(tx, changes.periods);
  await putInvoices(tx, accountId, changes.invoices);
  await putInvoiced(tx, changes.invoiced);
  await putRedemptions(tx, accountId, changes.redemptions);
  for (const subscriptionId of changes.duplicates)
    await requestCancellation(tx, { subscriptionId, accountId, kind: "duplicate" });
  if (changes.countSeats) await putSeatCheck(tx, accountId);
  await emitAll(tx, changes.events);
  if (changes.plan) await changeTier(tx, accountId, changes.plan === "none" ? undefined : changes.plan);
}
