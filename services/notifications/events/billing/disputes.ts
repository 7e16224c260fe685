import type * as billing from "../../../../proto/gen/berth/billing/v1/events_pb.ts";
import { dollars, invoiceName } from "./invoice-texts.ts";
import type { OwnersNotice } from "./owners-notice.ts";

export function disputeChanged(event: billing.DisputeChanged, handle: string): OwnersNotice | undefined {
  const { disputeId, invoiceId, outcome, amountCents, number, endsPlan } = event;
  const amount = dollars(amountCents);
  const common = {
    metadata: { disputeId, invoiceId, amount, ...(number && { number }) },
    dedupe: `${disputeId}:${outcome}`,
  };
  const what = `A payment of ${amount} for ${invoiceName(event)} of ${handle}`;
  switch (outcome) {
    case "open":
      return {
        ...common,
        kind: "billing.payment_disputed",
        title: `A payment of ${amount} for ${handle} is disputed`,
        body: `${what} was disputed at the bank of the card or account that paid, and the bank took the money back for now. The plan continues until the bank decides, usually within three months. Until then, nothing of this subscription is refunded. If this is a mistake, ask the bank to withdraw the dispute, and tell the operator of this Berth installation.`,
      };
    case "won":
      return {
        ...common,
        kind: "billing.dispute_closed",
        title: `The disputed payment of ${amount} for ${handle} stands`,
        body: `${what} was disputed, and the bank decided that it was right. Nothing changes for the plan. Refunds that waited for the decision are made now.`,
      };
    case "lost":
      return {
        ...common,
        kind: "billing.dispute_closed",
        title: `The bank returned a disputed payment of ${amount} to the payer`,
        body: `${what} was disputed, and the bank returned the money to the card or account that paid. It is not refunded a second time. ${endsPlan ? "Because the plan is not paid any longer, it ends now. Compute that ran is still charged. You can subscribe again on the billing page." : "The plan does not end because of this."}`,
      };
    default:
      return undefined;
  }
}
