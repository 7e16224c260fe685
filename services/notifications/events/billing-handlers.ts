import type { DescMessage, MessageShape } from "@bufbuild/protobuf";
import type { Timestamp } from "@bufbuild/protobuf/wkt";
import * as billing from "../../../proto/gen/berth/billing/v1/events_pb.ts";
import type { Handler } from "../../kit/events/handler.ts";
import type { Notice } from "../notices/notify.ts";
import { nameText, onDay, timeKey } from "../notices/text.ts";
import { audienceOf } from "../recipients/audience.ts";
import type { Directory } from "../recipients/directory.ts";
import type { Announce } from "./announce.ts";
import { cancelText, chargedOf, dollars, invoiceName, invoiceText, priceText } from "./billing-texts.ts";

/** A notice to the owners of an account; `dedupe` is unique within the account. */
type About = Pick<Notice, "kind" | "title" | "body" | "dedupe"> & { metadata?: Record<string, string> };

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
    toAbout: (event: MessageShape<S>, handle: string) => About | undefined,
  ): Handler {
    return announce(schema, async (event) => {
      const { accountId } = event as unknown as { accountId: string };
      const { handle, members } = await directory.account(accountId);
      const about = toAbout(event, handle);
      if (!about) return [];
      const metadata = { account: handle, ...about.metadata };
      const dedupe = `${accountId}:${about.dedupe}`;
      return [{ ...about, accountId, metadata, dedupe, recipients: audienceOf(about.kind, members) }];
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

const BEGINNING = ["", "incomplete"];
const RUNNING = ["active", "trialing"];

function subscriptionChanged(event: billing.SubscriptionChanged, handle: string): About | undefined {
  const { status, formerStatus, tier, cancelAtPeriodEnd, subscriptionId, currentPeriodEnd, duplicate } =
    event;
  const metadata = { subscriptionId, tier };
  // Its refund says that it was ended, and why. The account keeps its plan.
  if (duplicate) return undefined;
  if (BEGINNING.includes(formerStatus) && RUNNING.includes(status))
    return {
      kind: "billing.subscription_started",
      title: `${handle} is on the ${tier} plan`,
      body: `${priceText(event)}${cancelText(event)}`,
      metadata,
      dedupe: subscriptionId,
    };
  if (status === "canceled" && formerStatus !== "")
    return {
      kind: "billing.subscription_ended",
      title: `The ${tier} plan of ${handle} has ended`,
      body: `${handle} is now on the free plan, and the plan is not charged any longer. You cannot add anything beyond the limits of the free plan. What runs beyond them keeps running for a grace period; another notification says until when. You can subscribe again on the billing page.`,
      metadata,
      dedupe: subscriptionId,
    };
  const changed = changeOfPlan(event, handle);
  if (changed) return { ...changed, metadata };
  if (RUNNING.includes(status) && cancelAtPeriodEnd)
    return {
      kind: "billing.subscription_canceling",
      title: `The ${tier} plan of ${handle} ends${onDay(currentPeriodEnd)}`,
      body: `It was canceled, and continues until the end of the paid period. It is not renewed: there is no further payment for the plan and its members. Compute that runs until then is charged after that day. Then ${handle} is on the free plan.`,
      metadata,
      dedupe: occurrence(event),
    };
  return undefined;
}

/** Returns the notice of a change besides the status; undefined for other events, and those of earlier versions. */
function changeOfPlan(event: billing.SubscriptionChanged, handle: string): About | undefined {
  const { change, tier, cadence, formerTier, formerCadence, nextTier, nextCadence } = event;
  const { currentPeriodEnd, nextRenewalCents } = event;
  switch (change) {
    case "plan_changed":
      return {
        kind: "billing.plan_changed",
        title: `${handle} is now on the ${tier} plan, ${PAID[cadence]}`,
        body: `Before, it was on the ${formerTier} plan, ${PAID[formerCadence]}. If something is charged for the rest of the period, its invoice says what and for which time. ${priceText(event)}${cancelText(event)}`,
        dedupe: occurrence(event),
      };
    case "change_scheduled":
      return {
        kind: "billing.plan_change_scheduled",
        title: `${handle} changes to the ${nextTier} plan, ${PAID[nextCadence]},${onDay(currentPeriodEnd)}`,
        body: `Until then it stays on the ${tier} plan, ${PAID[cadence]}, which is paid. Then the plan with its members costs ${dollars(nextRenewalCents)} a ${nextCadence === "annual" ? "year" : "month"}, less the discount of a promo code, and the first payment is due that day. Until then you can undo the change on the billing page.`,
        dedupe: occurrence(event),
      };
    case "change_undone":
      return {
        kind: "billing.plan_change_undone",
        title: `${handle} stays on the ${tier} plan, ${PAID[cadence]}`,
        body: `The change that was to begin${onDay(currentPeriodEnd)} was undone. ${priceText(event)}${cancelText(event)}`,
        dedupe: occurrence(event),
      };
    case "cancellation_undone":
      return {
        kind: "billing.subscription_resumed",
        title: `The ${tier} plan of ${handle} continues`,
        body: `Its cancellation was undone. ${priceText(event)}${cancelText(event)}`,
        dedupe: occurrence(event),
      };
    default:
      return undefined;
  }
}

/** What can be undone can happen again in the same period; an event of an earlier version has no id. */
const occurrence = ({ subscriptionId, id, currentPeriodEnd }: billing.SubscriptionChanged) =>
  `${subscriptionId}:${id || timeKey(currentPeriodEnd)}`;

const PAID: Record<string, string> = { monthly: "paid monthly", annual: "paid yearly" };

function invoicePaid(event: billing.InvoiceMirrored, handle: string): About | undefined {
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

function paymentFailed(event: billing.PaymentFailed, handle: string): About {
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

function paymentActionRequired(event: billing.PaymentActionRequired, handle: string): About {
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

function cardExpiring(event: billing.CardExpiring, handle: string): About {
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

function pricesSuperseded(event: billing.PricesSuperseded, handle: string): About {
  const { subscriptionId, priceVersion, legacyUntil } = event;
  return {
    kind: "billing.price_change",
    title: `The prices of ${handle} stay the same${until(legacyUntil)}`,
    body: `There is a new price list. Until then nothing changes for ${handle}; after that, new prices may apply to its next term. The billing page shows the current prices.`,
    metadata: { subscriptionId, priceVersion },
    dedupe: `${subscriptionId}:${priceVersion}`,
  };
}

const until = (at: Timestamp | undefined) => onDay(at).replace(" on ", " until ");

function refundChanged(event: billing.RefundChanged, handle: string): About | undefined {
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
        body: `The plan was canceled. Its refund waits for ${reason === "disputed" ? "the bank to decide about a payment that is disputed" : "a decision by the operator, or for the payment provider"}. We will notify you when it is made. You do not need to do anything.`,
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

const REFUNDED: Record<string, string> = {
  canceled: "The plan was canceled, and the months that were not used are refunded.",
  duplicate:
    "The account was subscribed twice at the same time, and both subscriptions were paid. The second one has ended, and what was paid for it is refunded in full. The first one continues unchanged.",
};

function disputeChanged(event: billing.DisputeChanged, handle: string): About | undefined {
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

function usageThreshold(event: billing.UsageThreshold, handle: string): About {
  const { percent, periodStart, accruedNanoUsd, budgetNanoUsd, creditNanoUsd } = event;
  const [accrued, budget] = [dollars(toCents(accruedNanoUsd)), dollars(toCents(budgetNanoUsd))];
  if (creditNanoUsd > 0n && accruedNanoUsd >= creditNanoUsd)
    return {
      kind: "billing.credit_exhausted",
      title: `${handle} has used up the compute credit of its plan`,
      body: `Since the period began${onDay(periodStart)}, compute of ${handle} costs ${accrued}; the plan pays ${dollars(toCents(creditNanoUsd))} of it. Further compute is billed. The billing page shows which services use it: stop or reduce services that you do not need.`,
      metadata: { accrued, credit: dollars(toCents(creditNanoUsd)) },
      dedupe: timeKey(periodStart),
    };
  return {
    kind: "billing.usage_threshold",
    title: `${handle} has used ${percent} % of its compute budget`,
    body: `Since the period began${onDay(periodStart)}, compute of ${handle} costs ${accrued}; its budget is ${budget}. The billing page shows which services use it: stop or reduce services that you do not need.`,
    metadata: { percent: String(percent), accrued, budget },
    dedupe: `${timeKey(periodStart)}:${percent}`,
  };
}

const REFUSALS: Record<string, string> = {
  expired: "it is no longer valid",
  redemption_limit: "it has reached its number of redemptions",
  plan_restricted: "it is for another plan",
  not_eligible: "it is for other customers",
};

function couponNotApplied({ code, reason }: billing.CouponNotApplied, handle: string): About {
  const name = nameText(code);
  return {
    kind: "billing.coupon_not_applied",
    title: `The promo code ${name} was not applied`,
    body: `${handle} can subscribe, but without the code: ${REFUSALS[reason] ?? "the payment provider refuses it"}. The code stays saved, and is tried again at the next checkout.`,
    metadata: { code: name, reason },
    dedupe: `${name}:${reason}`,
  };
}

/** What runs without a plan, in the words of docs/billing.md#after-a-plan-ends. */
const KEPT =
  "One web and one worker service keep running if they have one replica of size nano. Databases keep running, and nothing is deleted.";

function graceStageReached({ stage, graceUntil, owed }: billing.GraceStageReached, handle: string): About {
  const day = onDay(graceUntil).replace(" on ", "");
  const common = { metadata: { until: day }, dedupe: `${timeKey(graceUntil)}:${stage}` };
  if (stage === "over")
    return {
      ...common,
      kind: "billing.services_stopped",
      title: `Services of ${handle} were stopped`,
      body: `No plan pays for what ${handle} runs beyond the free plan, and the grace period is over. ${KEPT} Services that were stopped start again when you subscribe on the billing page.${owed ? " What ran beyond the free plan since your plan ended is charged with the first compute invoice of that subscription. If you do not subscribe, it is not charged." : ""}`,
    };
  return {
    ...common,
    kind: "billing.grace_period",
    title:
      stage === "last_day"
        ? `Services of ${handle} are stopped tomorrow`
        : `Services of ${handle} keep running until ${day}`,
    body: `No plan pays for what ${handle} runs beyond the free plan. It keeps running until ${day}; then services beyond the free plan are stopped. ${KEPT} To keep all of them running, subscribe on the billing page before that day.${owed ? " What runs beyond the free plan until then is charged with the first compute invoice of that subscription. If you do not subscribe, it is not charged. To owe less, stop or reduce services now." : ""}`,
  };
}

function servicesResumed({ reason, at }: billing.ServicesResumed, handle: string): About {
  const why =
    reason === "spend_limit"
      ? "The spend limit is not reached any longer: it was raised or removed, or a new period began."
      : "A plan pays for them again.";
  return {
    kind: "billing.services_resumed",
    title: `Services of ${handle} run again`,
    body: `${why} Services that were stopped start with the replicas that they had before. You do not need to do anything.`,
    metadata: { reason },
    dedupe: `${timeKey(at)}:${reason}`,
  };
}

function spendLimitReached(event: billing.SpendLimitReached, handle: string): About {
  const { percent, limitCents, spentNanoUsd, periodStart, periodEnd } = event;
  const [spent, limit] = [dollars(toCents(spentNanoUsd)), dollars(limitCents)];
  const stops =
    percent >= 100
      ? `Services are therefore stopped until the period ends${onDay(periodEnd)}. ${KEPT} What keeps running is still charged. To start the others earlier, raise or remove the spend limit of the account.`
      : `At 100 %, services are stopped until the period ends${onDay(periodEnd)}. ${KEPT} To prevent that, stop or reduce services that you do not need, or raise the spend limit of the account.`;
  return {
    kind: "billing.spend_limit",
    title:
      percent >= 100
        ? `${handle} has reached its spend limit`
        : `${handle} has spent ${percent} % of its limit`,
    body: `Since the period began${onDay(periodStart)}, compute of ${handle} costs ${spent} beyond what its plan includes; the limit that you set is ${limit}. ${stops}`,
    metadata: { percent: String(percent), spent, limit },
    dedupe: `${timeKey(periodStart)}:${limitCents}:${percent}`,
  };
}

const toCents = (nanoUsd: bigint) => nanoUsd / 10_000_000n;
