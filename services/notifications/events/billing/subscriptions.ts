import type { Timestamp } from "@bufbuild/protobuf/wkt";
import type * as billing from "../../../../proto/gen/berth/billing/v1/events_pb.ts";
import { nameText, onDay, timeKey } from "../../notices/text.ts";
import { dollars, members } from "./invoice-texts.ts";
import type { OwnersNotice } from "./owners-notice.ts";

const BEGINNING = ["", "incomplete"];

const RUNNING = ["active", "trialing"];

export function subscriptionChanged(
  event: billing.SubscriptionChanged,
  handle: string,
): OwnersNotice | undefined {
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
function changeOfPlan(event: billing.SubscriptionChanged, handle: string): OwnersNotice | undefined {
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

type Plan = Pick<
  billing.SubscriptionChanged,
  "tier" | "cadence" | "renewalCents" | "additionalMembers" | "promoCode" | "currentPeriodEnd"
>;

/** Returns the sentences on what a plan costs, and when it is charged next. */
function priceText({ tier, cadence, renewalCents, additionalMembers, promoCode, currentPeriodEnd }: Plan) {
  if (renewalCents === 0n) return "";
  const [each, period] = cadence === "annual" ? ["year", "yearly"] : ["month", "monthly"];
  const what = `the ${tier} plan${additionalMembers > 0 ? ` with ${members(additionalMembers)}` : ""}`;
  const less = promoCode === "" ? "" : `, less the discount of the promo code ${nameText(promoCode)}`;
  return (
    `It costs ${dollars(renewalCents)} a ${each} for ${what}${less}. ` +
    `The next payment is due${onDay(currentPeriodEnd)}, and then ${period} until you cancel. ` +
    "Compute is charged monthly, for what ran, as far as the plan does not include it. "
  );
}

/** Returns how a plan is ended, and what that costs. */
const cancelText = ({ cadence }: Pick<Plan, "cadence">) =>
  cadence === "annual"
    ? "You can cancel at any time on the billing page: the plan then ends immediately, and the months that you did not use are refunded."
    : "You can cancel at any time on the billing page: the plan then continues until the end of the month that is paid.";

export function pricesSuperseded(event: billing.PricesSuperseded, handle: string): OwnersNotice {
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
