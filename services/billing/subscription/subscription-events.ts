import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import { SubscriptionChangedSchema } from "../../../proto/gen/berth/billing/v1/events_pb.ts";
import { eventOf, type OutboxEvent } from "../../kit/events/outbox.ts";
import { newId } from "../../kit/ids.ts";
import type { MirroredSubscription } from "./mirror-subscription.ts";
import type { RecordedSubscription } from "./sql.ts";
import { SUBSCRIBED } from "./statuses.ts";

type Reported = Pick<
  MirroredSubscription,
  | "id"
  | "accountId"
  | "status"
  | "tier"
  | "cadence"
  | "cancelAtPeriodEnd"
  | "currentPeriodEnd"
  | "items"
  | "coupon"
  | "pending"
>;

/**
 * Returns the events of a subscription that was recorded as `before`; without one it is new. `duplicate` is whether it was
 * bought at the same time as another one. Pure, but for the id of the change.
 */
export function subscriptionEvents(
  before: RecordedSubscription | undefined,
  subscription: Reported,
  duplicate = before?.duplicate ?? false,
): OutboxEvent[] {
  const { id, accountId, status, tier, cadence, cancelAtPeriodEnd, currentPeriodEnd } = subscription;
  const { items, coupon, pending } = subscription;
  const change = before ? changeOf(before, subscription) : "";
  if (before?.status === status && before.cancelAtPeriodEnd === cancelAtPeriodEnd && change === "") return [];
  if (status === "canceled" && before?.endAnnounced) return [];
  return [
    eventOf(SubscriptionChangedSchema, accountId, {
      accountId,
      subscriptionId: id,
      status,
      formerStatus: before?.status ?? "",
      tier,
      cancelAtPeriodEnd,
      currentPeriodEnd: timestampFromDate(currentPeriodEnd),
      cadence,
      renewalCents: BigInt(items.reduce((cents, item) => cents + centsOf(item), 0)),
      additionalMembers: items.find(({ kind }) => kind === "seat")?.quantity ?? 0,
      promoCode: coupon?.code ?? "",
      duplicate,
      change,
      formerTier: before?.tier ?? "",
      formerCadence: before?.cadence ?? "",
      nextTier: pending?.tier ?? "",
      nextCadence: pending?.cadence ?? "",
      nextRenewalCents: BigInt(pending?.renewalCents ?? 0),
      id: newId("sch"),
    }),
  ];
}

/** Returns what changed of a subscription besides its status; "" if nothing did. */
function changeOf(before: RecordedSubscription, now: Reported): string {
  if (!SUBSCRIBED.includes(now.status)) return "";
  if (before.tier !== now.tier || before.cadence !== now.cadence) return "plan_changed";
  if (before.cancelAtPeriodEnd && !now.cancelAtPeriodEnd) return "cancellation_undone";
  const [was, is] = [before.pending, now.pending];
  if (is && (is.tier !== was?.tier || is.cadence !== was.cadence)) return "change_scheduled";
  return was && !is && !now.cancelAtPeriodEnd ? "change_undone" : "";
}

const centsOf = ({ quantity, unitPriceUsd }: Reported["items"][number]) =>
  Math.round(quantity * unitPriceUsd * 100);

/** Whether a subscription begins to be billed: the members of its account may have changed while it was not. Pure. */
export function beginsToBeBilled(
  before: RecordedSubscription | undefined,
  { status }: Pick<MirroredSubscription, "status">,
): boolean {
  return SUBSCRIBED.includes(status) && !SUBSCRIBED.includes(before?.status ?? "");
}
