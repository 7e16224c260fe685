import type * as billing from "../../../../proto/gen/berth/billing/v1/events_pb.ts";
import { dollars } from "./invoice-texts.ts";
import type { OwnersNotice } from "./owners-notice.ts";

export function refundChanged(event: billing.RefundChanged, handle: string): OwnersNotice | undefined {
  const { subscriptionId, status, amountCents, refundId, reason } = event;
  const amount = dollars(amountCents);
  const taxes = event.taxCents > 0n ? ` It includes ${dollars(event.taxCents)} of taxes.` : "";
  const common = { metadata: { subscriptionId, amount }, dedupe: subscriptionId };
  switch (status) {
    case "refunded":
      return {
        ...common,
        kind: "billing.refund_issued",
        title: `${handle} gets a refund of ${amount}`,
        body: `${REFUNDED[reason] ?? REFUNDED.canceled}${taxes} The refund is on its way to the card or account that paid. It arrives within 10 days. You do not need to do anything.`,
      };
    case "under_review":
      return {
        ...common,
        kind: "billing.refund_under_review",
        title: `A refund of ${amount} to ${handle} is under review`,
        body: `${UNDER_REVIEW[reason] ?? UNDER_REVIEW.canceled} We will notify you when it is made. You do not need to do anything.`,
      };
    case "failed":
      return {
        ...common,
        kind: "billing.refund_failed",
        title: `A refund of ${amount} to ${handle} failed`,
        body: "The bank could not return the money to the card or account that paid. Tell the operator of this Berth installation how you want to receive it.",
        dedupe: refundId || subscriptionId,
      };
    case "denied":
      return {
        ...common,
        kind: "billing.refund_denied",
        title: `A refund of ${amount} to ${handle} was denied`,
        body: "The operator of this Berth installation reviewed the refund for the canceled plan and denied it. Ask the operator for the reason.",
      };
    default:
      return undefined;
  }
}

const UNDER_REVIEW: Record<string, string> = {
  canceled:
    "The plan was canceled. Its refund waits for a decision by the operator, or for the payment provider.",
  // However it ended: a second subscription is no plan that was canceled.
  disputed:
    "The subscription has ended. Its refund waits for the bank to decide about a payment that is disputed.",
};

const REFUNDED: Record<string, string> = {
  canceled: "The plan was canceled, and the months that were not used are refunded.",
  duplicate:
    "The account was subscribed twice at the same time, and both subscriptions were paid. The second one has ended, and what was paid for it is refunded in full. The first one continues unchanged.",
};
