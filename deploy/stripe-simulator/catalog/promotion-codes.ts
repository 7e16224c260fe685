import type Stripe from "stripe";
import { invalid } from "../http/errors.ts";
import { need, needCustomer } from "../http/lookup.ts";
import { clearable, flag, map, mergeMetadata, natural, object, oneOf, range, text } from "../http/params.ts";
import { listRoute, type Route, route, select } from "../http/routes.ts";
import { newId, randomWord } from "../state/ids.ts";
import { idOf, type World } from "../state/world.ts";
import { withValidity } from "./coupons.ts";

/** Promotion codes, which customers enter to get a coupon. */
export function promotionCodeRoutes(world: World): Route[] {
  const { promotionCodes } = world.state;
  return [
    route("POST", "/v1/promotion_codes", PROMOTION_CODE, (params) => createPromotionCode(world, params)),
    route("GET", "/v1/promotion_codes/:id", object({}), (_, id) =>
      refreshed(world, need(promotionCodes, "promotion code", id!)),
    ),
    route(
      "POST",
      "/v1/promotion_codes/:id",
      object<Stripe.PromotionCodeUpdateParams>({ active: flag, metadata: clearable(map) }),
      ({ active, metadata }, id) => {
        const code = need(promotionCodes, "promotion code", id!);
        if (active !== undefined) code.active = active;
        code.metadata = mergeMetadata(code.metadata, metadata);
        world.emit("promotion_code.updated", code);
        return code;
      },
    ),
    listRoute(
      "/v1/promotion_codes",
      object<Stripe.PromotionCodeListParams>({
        active: flag,
        code: text,
        coupon: text,
        created: range,
        customer: text,
      }),
      ({ code, coupon, ...filter }) =>
        select(
          promotionCodes.values().map((row) => refreshed(world, row)),
          filter,
        ).filter(
          (row) =>
            (code === undefined || isSameCode(row.code, code)) &&
            (coupon === undefined || row.promotion.coupon === coupon),
        ),
    ),
  ];
}

const PROMOTION_CODE = object<Stripe.PromotionCodeCreateParams>(
  {
    promotion: object<Stripe.PromotionCodeCreateParams.Promotion>(
      { coupon: text, type: oneOf("coupon") },
      "type",
      "coupon",
    ),
    active: flag,
    code: text,
    customer: text,
    expires_at: natural,
    max_redemptions: natural,
    metadata: map,
    restrictions: object<Stripe.PromotionCodeCreateParams.Restrictions>({
      first_time_transaction: flag,
      minimum_amount: natural,
      minimum_amount_currency: text,
    }),
  },
  "promotion",
);

function createPromotionCode(world: World, params: Stripe.PromotionCodeCreateParams): Stripe.PromotionCode {
  const { state, clock } = world;
  const coupon = need(state.coupons, "coupon", params.promotion.coupon!, "promotion[coupon]");
  const code = params.code ?? randomWord(8).toUpperCase();
  const customer = params.customer === undefined ? null : needCustomer(state, params.customer).id;
  const taken = [...state.promotionCodes.values()].some(
    (row) => refreshed(world, row).active && isSameCode(row.code, code) && row.customer === customer,
  );
  if (taken) throw invalid(`An active promotion code with \`code: ${code}\` already exists.`, "code");
  const promotionCode = {
    id: newId("promo"),
    object: "promotion_code",
    active: params.active ?? true,
    code,
    created: clock.now(),
    customer,
    customer_account: null,
    expires_at: params.expires_at ?? null,
    livemode: false,
    max_redemptions: params.max_redemptions ?? null,
    metadata: mergeMetadata({}, params.metadata),
    promotion: { coupon: coupon.id, type: "coupon" },
    restrictions: {
      first_time_transaction: params.restrictions?.first_time_transaction ?? false,
      minimum_amount: params.restrictions?.minimum_amount ?? null,
      minimum_amount_currency: params.restrictions?.minimum_amount_currency ?? null,
    },
    times_redeemed: 0,
  } satisfies Stripe.PromotionCode;
  state.promotionCodes.set(promotionCode.id, promotionCode);
  world.emit("promotion_code.created", promotionCode);
  return promotionCode;
}

function isSameCode(one: string, other: string): boolean {
  return one.toLowerCase() === other.toLowerCase();
}

/** Updates `active`: false for a code that expired, is used up or whose coupon is not valid. */
function refreshed(world: World, row: Stripe.PromotionCode): Stripe.PromotionCode {
  const { expires_at, max_redemptions, times_redeemed, promotion } = row;
  const coupon = world.state.coupons.get(idOf(promotion.coupon!));
  const usable =
    (expires_at === null || expires_at > world.clock.now()) &&
    (max_redemptions === null || times_redeemed < max_redemptions) &&
    coupon !== undefined &&
    withValidity(world, coupon).valid;
  if (!usable) row.active = false;
  return row;
}

/** A requested discount. */
export type DiscountRequest = { coupon?: string; promotion_code?: string; discount?: string };

/** The coupon, and the code if there is one, of a discount. */
export type DiscountSource = { coupon: string; promotion_code: string | null };

/** Returns the sources of the discounts in the parameter `discounts`. */
export function toDiscountSources(
  world: World,
  requests: DiscountRequest[],
  customer: string,
  amount?: number,
): DiscountSource[] {
  return requests.map((request, index) =>
    toDiscountSource(world, request, { customer, amount, param: `discounts[${index}]` }),
  );
}

/**
 * Returns the source of a discount for a customer who pays `amount` now (undefined: no minimum is checked). Throws for a
 * code that cannot be redeemed.
 */
function toDiscountSource(
  world: World,
  request: DiscountRequest,
  { customer, amount, param }: { customer: string; amount: number | undefined; param: string },
): DiscountSource {
  const { state } = world;
  if ((request.coupon === undefined) === (request.promotion_code === undefined))
    throw invalid("You must provide exactly one of coupon and promotion_code.", param);
  if (request.coupon !== undefined) {
    const coupon = withValidity(world, need(state.coupons, "coupon", request.coupon, `${param}[coupon]`));
    if (!coupon.valid) throw invalid(`Coupon expired: ${coupon.id}`, `${param}[coupon]`, "coupon_expired");
    return { coupon: coupon.id, promotion_code: null };
  }
  const at = `${param}[promotion_code]`;
  const row = refreshed(world, need(state.promotionCodes, "promotion code", request.promotion_code!, at));
  if (!row.active) throw invalid("This promotion code is inactive.", at, "coupon_expired");
  if (row.customer !== null && row.customer !== customer)
    throw invalid("This promotion code cannot be redeemed by this customer.", at);
  const paidBefore = [...state.invoices.values()].some(
    (invoice) => invoice.customer === customer && invoice.status === "paid" && invoice.amount_paid > 0,
  );
  if (row.restrictions.first_time_transaction && paidBefore)
    throw invalid(
      "This promotion code cannot be redeemed because the associated customer has prior transactions.",
      at,
    );
  const { minimum_amount } = row.restrictions;
  if (minimum_amount !== null && amount !== undefined && amount < minimum_amount)
    throw invalid(
      "This promotion code cannot be redeemed because the order does not meet the minimum amount.",
      at,
    );
  return { coupon: idOf(row.promotion.coupon!), promotion_code: row.id };
}

/** Refuses a discount whose code or coupon was redeemed as often as it may be since it was requested. */
export function requireRedemptionLeft({ state }: World, { coupon, promotion_code }: DiscountSource): void {
  const limits = [state.coupons.get(coupon), state.promotionCodes.get(promotion_code ?? "")];
  const isUsedUp = limits.some(
    (one) => one && one.max_redemptions !== null && one.times_redeemed >= one.max_redemptions,
  );
  if (isUsedUp)
    throw invalid(
      "This promotion code has been redeemed as often as it can be.",
      "discounts",
      "coupon_expired",
    );
}
