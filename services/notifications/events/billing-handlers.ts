import type { DescMessage, MessageShape } from "@bufbuild/protobuf";
import type { Timestamp } from "@bufbuild/protobuf/wkt";
import * as billing from "../../../proto/gen/berth/billing/v1/events_pb.ts";
import type { Handler } from "../../kit/events/handler.ts";
import type { Notice } from "../notices/notify.ts";
import { audienceOf, type Directory } from "../notices/recipients.ts";
import { nameText, onDay, timeKey } from "../notices/text.ts";
import type { Announce } from "./announce.ts";

/** A notice to the owners of an account; its key is that of one thing within the account. */
type About = Pick<Notice, "kind" | "title" | "body" | "dedupe"> & { metadata?: Record<string, string> };

/** What is said of an account by its name, and where its owners look. */
type Place = { handle: string; path: string };

/** Handlers of what concerns the money of an account. Its plan changes with its subscription, which is what is told. */
export function billingHandlers({
  announce,
  directory,
}: {
  announce: Announce;
  directory: Directory;
}): Handler[] {
  /** As `announce`, for events that say something to the owners of an account, or nothing. */
  function toOwners<S extends DescMessage>(
    schema: S,
    toAbout: (event: MessageShape<S>, place: Place) => About | undefined,
  ): Handler {
    return announce(schema, async (event) => {
      const { accountId } = event as unknown as { accountId: string };
      const { handle, members } = await directory.account(accountId);
      const about = toAbout(event, { handle, path: `/accounts/${accountId}` });
      if (!about) return [];
      const metadata = { account: handle, ...about.metadata };
      const dedupe = `${accountId}:${about.dedupe}`;
      return [{ ...about, accountId, metadata, dedupe, recipients: audienceOf(about.kind, members) }];
    });
  }

  return [
    toOwners(billing.SubscriptionChangedSchema, subscriptionChanged),
    // An invoice of nothing, as one that a promo code paid, is no payment.
    toOwners(billing.InvoiceMirroredSchema, (event, place) =>
      event.status === "paid" && event.totalCents > 0n ? invoicePaid(event, place) : undefined,
    ),
    toOwners(billing.PaymentFailedSchema, paymentFailed),
    toOwners(billing.PaymentActionRequiredSchema, paymentActionRequired),
    toOwners(billing.CardExpiringSchema, cardExpiring),
    toOwners(billing.PricesSupersededSchema, pricesSuperseded),
    toOwners(billing.RefundChangedSchema, refundChanged),
    toOwners(billing.UsageThresholdSchema, usageThreshold),
    toOwners(billing.CouponNotAppliedSchema, couponNotApplied),
  ];
}

const BEGINNING = ["", "incomplete"];
const RUNNING = ["active", "trialing"];

function subscriptionChanged(event: billing.SubscriptionChanged, place: Place): About | undefined {
  const { status, formerStatus, tier, cancelAtPeriodEnd, subscriptionId, currentPeriodEnd } = event;
  const { handle, path } = place;
  const metadata = { subscriptionId, tier };
  if (BEGINNING.includes(formerStatus) && RUNNING.includes(status))
    return {
      kind: "billing.subscription_started",
      title: `${handle} is on the ${tier} plan`,
      body: `The subscription of ${handle} has started. ${path}/subscription shows it with its invoices; owners can cancel it there at any time.`,
      metadata,
      dedupe: subscriptionId,
    };
  if (status === "canceled" && formerStatus !== "")
    return {
      kind: "billing.subscription_ended",
      title: `The ${tier} plan of ${handle} has ended`,
      body: `Without another subscription, ${handle} is on the free plan now: what runs keeps running, within what that plan allows. Subscribe again with POST ${path}/subscription.`,
      metadata,
      dedupe: subscriptionId,
    };
  if (RUNNING.includes(status) && cancelAtPeriodEnd)
    return {
      kind: "billing.subscription_canceling",
      title: `The ${tier} plan of ${handle} ends${onDay(currentPeriodEnd)}`,
      body: `It was canceled, and stays until the end of the period that is paid. Until then nothing changes; after that ${handle} is on the free plan.`,
      metadata,
      dedupe: `${subscriptionId}:${timeKey(currentPeriodEnd)}`,
    };
  return undefined;
}

function invoicePaid({ invoiceId, totalCents }: billing.InvoiceMirrored, { handle, path }: Place): About {
  const amount = dollars(totalCents);
  return {
    kind: "billing.invoice_paid",
    title: `${handle} paid ${amount}`,
    body: `The payment provider received ${amount} for an invoice of ${handle}. The invoice is at ${path}/subscription.`,
    metadata: { invoiceId, amount },
    dedupe: invoiceId,
  };
}

function paymentFailed(event: billing.PaymentFailed, { handle, path }: Place): About {
  const { invoiceId, totalCents, nextAttemptAt } = event;
  const amount = dollars(totalCents);
  const again = nextAttemptAt
    ? `The payment provider tries again${onDay(nextAttemptAt)}. A subscription that stays unpaid ends after some attempts.`
    : "The payment provider does not try again. A subscription that stays unpaid ends.";
  return {
    kind: "billing.payment_failed",
    title: `A payment of ${amount} for ${handle} failed`,
    body: `${again} Pay the invoice, or change how it is paid: ${path}/billing-portal leads to both.`,
    metadata: { invoiceId, amount },
    dedupe: `${invoiceId}:${timeKey(nextAttemptAt)}`,
  };
}

function paymentActionRequired(
  { invoiceId, totalCents }: billing.PaymentActionRequired,
  { handle, path }: Place,
): About {
  const amount = dollars(totalCents);
  return {
    kind: "billing.payment_action_required",
    title: `A payment of ${amount} for ${handle} needs your confirmation`,
    body: `The bank of the card wants the payment to be confirmed. Open the invoice's page, hostedUrl in ${path}/subscription, and pay it there. A subscription that stays unpaid ends.`,
    metadata: { invoiceId, amount },
    dedupe: invoiceId,
  };
}

function cardExpiring(event: billing.CardExpiring, { handle, path }: Place): About {
  const { subscriptionId, brand, last4, expMonth, expYear } = event;
  const month = new Intl.DateTimeFormat("en-GB", { timeZone: "UTC", month: "long", year: "numeric" });
  const end = month.format(Date.UTC(expYear, expMonth - 1));
  return {
    kind: "billing.card_expiring",
    title: `The card that pays for ${handle} expires at the end of ${end}`,
    body: `It is the ${brand} card that ends in ${last4}. Give the payment provider another one in time, unless your bank does so by itself: ${path}/billing-portal leads there.`,
    metadata: { subscriptionId, brand, last4 },
    dedupe: `${subscriptionId}:${last4}:${expYear}-${expMonth}`,
  };
}

function pricesSuperseded(event: billing.PricesSuperseded, { handle, path }: Place): About {
  const { subscriptionId, priceVersion, legacyUntil } = event;
  return {
    kind: "billing.price_change",
    title: `The prices that ${handle} pays hold${until(legacyUntil)}`,
    body: `There is a new price list. Until then nothing changes for ${handle}; after that, new prices may apply to its next term. ${path}/subscription shows what it pays now.`,
    metadata: { subscriptionId, priceVersion },
    dedupe: `${subscriptionId}:${priceVersion}`,
  };
}

const until = (at: Timestamp | undefined) => onDay(at).replace(" on ", " until ");

function refundChanged(event: billing.RefundChanged, { handle }: Place): About | undefined {
  const { subscriptionId, status, amountCents, refundId } = event;
  const amount = dollars(amountCents);
  const common = { metadata: { subscriptionId, amount }, dedupe: subscriptionId };
  switch (status) {
    case "refunded":
      return {
        ...common,
        kind: "billing.refund_issued",
        title: `${amount} are refunded to ${handle}`,
        body: "The refund for the plan that was canceled is on its way to the card or account that paid. It arrives within 10 days.",
      };
    case "under_review":
      return {
        ...common,
        kind: "billing.refund_under_review",
        title: `A refund of ${amount} to ${handle} is under review`,
        body: "The plan was canceled. Its refund waits for a person to look at it, or for the payment provider; you are told when it is made. You need not do anything.",
      };
    case "failed":
      return {
        ...common,
        kind: "billing.refund_failed",
        title: `A refund of ${amount} to ${handle} failed`,
        body: "The bank could not take the money back to the card or account that paid. Tell the operator of this Berth how you want to get it.",
        dedupe: refundId || subscriptionId,
      };
    case "denied":
      return {
        ...common,
        kind: "billing.refund_denied",
        title: `A refund of ${amount} to ${handle} was denied`,
        body: "The operator of this Berth looked at the refund for the plan that was canceled, and does not make it. Ask the operator for the reason.",
      };
    default:
      return undefined;
  }
}

function usageThreshold(event: billing.UsageThreshold, { handle, path }: Place): About {
  const { percent, periodStart, accruedNanoUsd, budgetNanoUsd, creditNanoUsd } = event;
  const [accrued, budget] = [dollars(toCents(accruedNanoUsd)), dollars(toCents(budgetNanoUsd))];
  if (creditNanoUsd > 0n && accruedNanoUsd >= creditNanoUsd)
    return {
      kind: "billing.credit_exhausted",
      title: `${handle} has used up the compute that its plan includes`,
      body: `Since the period began${onDay(periodStart)}, compute of ${handle} costs ${accrued}; the plan pays ${dollars(toCents(creditNanoUsd))} of it. What runs on is billed. ${path}/compute-usage shows which services use it: stop, or make smaller, what is not needed.`,
      metadata: { accrued, credit: dollars(toCents(creditNanoUsd)) },
      dedupe: timeKey(periodStart),
    };
  return {
    kind: "billing.usage_threshold",
    title: `${handle} has used ${percent} % of its compute budget`,
    body: `Since the period began${onDay(periodStart)}, compute of ${handle} costs ${accrued}; its budget is ${budget}. ${path}/compute-usage shows which services use it: stop, or make smaller, what is not needed.`,
    metadata: { percent: String(percent), accrued, budget },
    dedupe: `${timeKey(periodStart)}:${percent}`,
  };
}

const REFUSALS: Record<string, string> = {
  expired: "it is no longer valid",
  redemption_limit: "it was used as often as it may be",
  plan_restricted: "it is for another plan",
  not_eligible: "it is for other customers",
};

function couponNotApplied({ code, reason }: billing.CouponNotApplied, { handle, path }: Place): About {
  const name = nameText(code);
  return {
    kind: "billing.coupon_not_applied",
    title: `The promo code ${name} was not applied`,
    body: `${handle} can subscribe, but without the code: ${REFUSALS[reason] ?? "the payment provider refuses it"}. It stays saved; DELETE ${path}/coupon drops it, and POST saves another.`,
    metadata: { code: name, reason },
    dedupe: `${name}:${reason}`,
  };
}

const toCents = (nanoUsd: bigint) => nanoUsd / 10_000_000n;

/** Returns cents as people read them: `$1,000.00`. */
function dollars(cents: bigint): string {
  return new Intl.NumberFormat("en-US", { style: "currency", currency: "USD" }).format(Number(cents) / 100);
}
