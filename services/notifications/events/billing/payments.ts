import type * as billing from "../../../../proto/gen/berth/billing/v1/events_pb.ts";
import { onDay, timeKey } from "../../notices/text.ts";
import { chargedOf, dollars, invoiceName, invoiceText } from "./invoice-texts.ts";
import type { OwnersNotice } from "./owners-notice.ts";

export function invoicePaid(event: billing.InvoiceMirrored, handle: string): OwnersNotice | undefined {
  const charged = chargedOf(event);
  if (charged <= 0n) return undefined;
  const { invoiceId, number } = event;
  const amount = dollars(charged);
  return {
    kind: "billing.invoice_paid",
    title: `${handle} paid ${amount}`,
    body: `The payment provider received ${amount} for ${invoiceName(event)} of ${handle}.${invoiceText(event)}\nThe billing page shows when the next payment is due, and how to cancel.`,
    metadata: { invoiceId, amount, ...(number && { number }) },
    dedupe: invoiceId,
  };
}

export function paymentFailed(event: billing.PaymentFailed, handle: string): OwnersNotice {
  const { invoiceId, nextAttemptAt, number } = event;
  const amount = dollars(chargedOf(event));
  const again = nextAttemptAt
    ? `The payment provider will try again${onDay(nextAttemptAt)}. If it is still unpaid after some attempts, the subscription ends.`
    : "The payment provider will not try again. If it stays unpaid, the subscription ends.";
  return {
    kind: "billing.payment_failed",
    title: `A payment of ${amount} for ${handle} failed`,
    body: `It is for ${invoiceName(event)}.${invoiceText(event)}\n${again} You can pay the invoice now, or change the payment method.`,
    metadata: { invoiceId, amount, ...(number && { number }) },
    dedupe: `${invoiceId}:${timeKey(nextAttemptAt)}`,
  };
}

export function paymentActionRequired(event: billing.PaymentActionRequired, handle: string): OwnersNotice {
  const { invoiceId, number } = event;
  const amount = dollars(chargedOf(event));
  return {
    kind: "billing.payment_action_required",
    title: `A payment of ${amount} for ${handle} needs your confirmation`,
    body: `It is for ${invoiceName(event)}.${invoiceText(event)}\nThe bank that issued the card requires you to confirm the payment. Open the page of the invoice and pay it there. If it stays unpaid, the subscription ends.`,
    metadata: { invoiceId, amount, ...(number && { number }) },
    dedupe: invoiceId,
  };
}

export function cardExpiring(event: billing.CardExpiring, handle: string): OwnersNotice {
  const { subscriptionId, brand, last4, expMonth, expYear } = event;
  const month = new Intl.DateTimeFormat("en-GB", { timeZone: "UTC", month: "long", year: "numeric" });
  const end = month.format(Date.UTC(expYear, expMonth - 1));
  return {
    kind: "billing.card_expiring",
    title: `The card that pays for ${handle} expires at the end of ${end}`,
    body: `It is the ${brand} card that ends in ${last4}. Add another card at the payment provider in time, unless your bank updates it automatically. Otherwise the next payment fails.`,
    metadata: { subscriptionId, brand, last4 },
    dedupe: `${subscriptionId}:${last4}:${expYear}-${expMonth}`,
  };
}
