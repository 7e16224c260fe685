import type { DescMessage, MessageShape } from "@bufbuild/protobuf";
import * as billing from "../../../../proto/gen/berth/billing/v1/events_pb.ts";
import type { Handler } from "../../../kit/events/handler.ts";
import { audienceOf } from "../../recipients/audience.ts";
import type { Directory } from "../../recipients/directory.ts";
import type { Announce } from "../announce.ts";
import { graceStageReached, servicesResumed, spendLimitReached, usageThreshold } from "./compute.ts";
import { couponNotApplied } from "./coupons.ts";
import { disputeChanged } from "./disputes.ts";
import type { OwnersNotice } from "./owners-notice.ts";
import { cardExpiring, invoicePaid, paymentActionRequired, paymentFailed } from "./payments.ts";
import { refundChanged } from "./refunds.ts";
import { pricesSuperseded, subscriptionChanged } from "./subscriptions.ts";

/** Handlers of billing events. A change of plan comes with a change of subscription, which is the one that is announced. */
export function billingHandlers({
  announce,
  directory,
}: {
  announce: Announce;
  directory: Directory;
}): Handler[] {
  /** Like `announce`, for events that yield at most one notice, to the owners of an account. */
  function toOwners<S extends DescMessage>(
    schema: S,
    toNotice: (event: MessageShape<S>, handle: string) => OwnersNotice | undefined,
  ): Handler {
    return announce(schema, async (event) => {
      const { accountId } = event as unknown as { accountId: string };
      const { handle, members } = await directory.account(accountId);
      const notice = toNotice(event, handle);
      if (!notice) return [];
      const metadata = { account: handle, ...notice.metadata };
      const dedupe = `${accountId}:${notice.dedupe}`;
      return [{ ...notice, accountId, metadata, dedupe, recipients: audienceOf(notice.kind, members) }];
    });
  }

  return [
    toOwners(billing.SubscriptionChangedSchema, subscriptionChanged),
    // An invoice over $0, such as one covered by a promo code, is not a payment.
    toOwners(billing.InvoiceMirroredSchema, (event, handle) =>
      event.status === "paid" ? invoicePaid(event, handle) : undefined,
    ),
    toOwners(billing.PaymentFailedSchema, paymentFailed),
    toOwners(billing.PaymentActionRequiredSchema, paymentActionRequired),
    toOwners(billing.CardExpiringSchema, cardExpiring),
    toOwners(billing.PricesSupersededSchema, pricesSuperseded),
    toOwners(billing.RefundChangedSchema, refundChanged),
    toOwners(billing.DisputeChangedSchema, disputeChanged),
    toOwners(billing.UsageThresholdSchema, usageThreshold),
    toOwners(billing.CouponNotAppliedSchema, couponNotApplied),
    toOwners(billing.GraceStageReachedSchema, graceStageReached),
    toOwners(billing.ServicesResumedSchema, servicesResumed),
    toOwners(billing.SpendLimitReachedSchema, spendLimitReached),
  ];
}
