import type * as billing from "../../../../proto/gen/berth/billing/v1/events_pb.ts";
import { nameText } from "../../notices/text.ts";
import type { OwnersNotice } from "./owners-notice.ts";

const REFUSALS: Record<string, string> = {
  expired: "it is no longer valid",
  redemption_limit: "it has reached its number of redemptions",
  plan_restricted: "it is for another plan",
  not_eligible: "it is for other customers",
};

export function couponNotApplied({ code, reason }: billing.CouponNotApplied, handle: string): OwnersNotice {
  const name = nameText(code);
  return {
    kind: "billing.coupon_not_applied",
    title: `The promo code ${name} was not applied`,
    body: `${handle} can subscribe, but without the code: ${REFUSALS[reason] ?? "the payment provider refuses it"}. The code stays saved, and is tried again at the next checkout.`,
    metadata: { code: name, reason },
    dedupe: `${name}:${reason}`,
  };
}
