import type Stripe from "stripe";

/** A promo code that was redeemed on a subscription: since when (s), and whether an invoice was reduced by it. */
export type Redemption = { promotionCodeId: string; startedAt: number; used: boolean };

/** Subscriptions that never began: what was redeemed for them does not count. */
const NEVER_BEGAN = ["incomplete", "incomplete_expired"];

/** The ids of coupons that Berth makes: for the rest of the term of a code that was removed and is redeemed again. */
const REST = /^berth_rest_(promo_\w+?)_(?:\d+|once|forever)$/;

/** How much of a code's term is left: so many months, one invoice, or all time. */
export type Rest = number | "once" | "forever";

/** Returns the id of the coupon for the rest of a code's term: accounts with as much left share it. */
export function restCouponId(promotionCodeId: string, rest: Rest): string {
  return `berth_rest_${promotionCodeId}_${rest}`;
}

/** Returns the promo codes that the discounts of a subscription come from. Pure. */
export function redemptionsOf({
  status,
  discounts,
}: Pick<Stripe.Subscription, "status" | "discounts">): Redemption[] {
  if (NEVER_BEGAN.includes(status)) return [];
  return discounts.flatMap((discount) => toRedemption(discount, false));
}

/** What has to be expanded in a list of invoices for `usesOf`. */
export const EXPAND_USES = ["data.total_discount_amounts.discount"];

/** Returns the promo codes that reduced an invoice, unless it is void. Pure. */
export function usesOf({
  status,
  total_discount_amounts: amounts,
}: Pick<Stripe.Invoice, "status" | "total_discount_amounts">): Redemption[] {
  if (status === "void") return [];
  return (amounts ?? []).flatMap(({ amount, discount }) => (amount > 0 ? toRedemption(discount, true) : []));
}

type Discount = Pick<Stripe.Discount, "promotion_code" | "source" | "start">;

function toRedemption(discount: string | Discount, used: boolean): Redemption[] {
  const promotionCodeId = typeof discount === "string" ? undefined : codeOf(discount);
  if (typeof discount === "string" || promotionCodeId === undefined) return [];
  return [{ promotionCodeId, startedAt: discount.start, used }];
}

/** Returns the promo code that a discount comes from, also one by a coupon for the rest of a term. */
export function codeOf({
  promotion_code: code,
  source: { coupon },
}: Omit<Discount, "start">): string | undefined {
  if (code) return typeof code === "string" ? code : code.id;
  return REST.exec((typeof coupon === "string" ? coupon : coupon?.id) ?? "")?.[1];
}
