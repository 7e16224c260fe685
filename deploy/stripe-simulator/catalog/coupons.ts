import type Stripe from "stripe";
import { invalid } from "../http/errors.ts";
import { need } from "../http/lookup.ts";
import {
  clearable,
  float,
  list,
  map,
  mergeMetadata,
  natural,
  object,
  oneOf,
  range,
  text,
} from "../http/params.ts";
import { listRoute, type Route, route, select } from "../http/routes.ts";
import { newId } from "../state/ids.ts";
import type { World } from "../state/world.ts";

/** Coupons: the terms of a discount. */
export function couponRoutes(world: World): Route[] {
  const { coupons, deleted } = world.state;
  return [
    route(
      "POST",
      "/v1/coupons",
      object<Stripe.CouponCreateParams>({
        id: text,
        amount_off: natural,
        applies_to: object<Stripe.CouponCreateParams.AppliesTo>({ products: list(text) }),
        currency: text,
        duration: oneOf("forever", "once", "repeating"),
        duration_in_months: natural,
        max_redemptions: natural,
        metadata: clearable(map),
        name: text,
        percent_off: float,
        redeem_by: natural,
      }),
      (params) => createCoupon(world, params),
    ),
    route("GET", "/v1/coupons/:id", object({}), (_, id) => withValidity(world, need(coupons, "coupon", id!))),
    route(
      "POST",
      "/v1/coupons/:id",
      object<Stripe.CouponUpdateParams>({ name: text, metadata: clearable(map) }),
      ({ name, metadata }, id) => {
        const coupon = need(coupons, "coupon", id!);
        if (name !== undefined) coupon.name = name;
        coupon.metadata = mergeMetadata(coupon.metadata, metadata);
        world.emit("coupon.updated", coupon);
        return coupon;
      },
    ),
    route("DELETE", "/v1/coupons/:id", object({}), (_, id) => {
      const coupon = need(coupons, "coupon", id!);
      coupons.delete(coupon.id);
      const gone = { id: coupon.id, object: "coupon", deleted: true } satisfies Stripe.DeletedCoupon;
      deleted.set(coupon.id, gone);
      world.emit("coupon.deleted", coupon);
      return gone;
    }),
    listRoute("/v1/coupons", object<Stripe.CouponListParams>({ created: range }), (filter) =>
      select(coupons.values(), filter).map((coupon) => withValidity(world, coupon)),
    ),
  ];
}

function createCoupon(world: World, params: Stripe.CouponCreateParams): Stripe.Coupon {
  const { state, clock } = world;
  const { amount_off, percent_off, duration = "once", duration_in_months } = params;
  const id = params.id ?? newId("", 8).slice(1);
  if (state.coupons.has(id)) throw invalid("Coupon already exists.", "id", "resource_already_exists");
  if ((amount_off === undefined) === (percent_off === undefined))
    throw invalid("Must provide exactly one of percent_off and amount_off.", "percent_off");
  if (percent_off !== undefined && (percent_off <= 0 || percent_off > 100))
    throw invalid("Invalid percent_off: must be greater than 0 and at most 100.", "percent_off");
  if (amount_off !== undefined && params.currency === undefined)
    throw invalid("You must pass currency when passing amount_off.", "currency", "parameter_missing");
  if ((duration === "repeating") !== (duration_in_months !== undefined))
    throw invalid("duration_in_months belongs to duration repeating.", "duration_in_months");
  for (const product of params.applies_to?.products ?? [])
    need(state.products, "product", product, "applies_to[products]");
  const coupon = {
    id,
    object: "coupon",
    amount_off: amount_off ?? null,
    ...(params.applies_to?.products && { applies_to: { products: params.applies_to.products } }),
    created: clock.now(),
    currency: amount_off === undefined ? null : params.currency!,
    duration,
    duration_in_months: duration_in_months ?? null,
    livemode: false,
    max_redemptions: params.max_redemptions ?? null,
    metadata: mergeMetadata({}, params.metadata),
    name: params.name ?? null,
    percent_off: percent_off ?? null,
    redeem_by: params.redeem_by ?? null,
    times_redeemed: 0,
    valid: true,
  } satisfies Stripe.Coupon;
  state.coupons.set(id, coupon);
  world.emit("coupon.created", coupon);
  return coupon;
}

/** Updates `valid`: whether the coupon can be redeemed now. */
export function withValidity({ clock }: World, coupon: Stripe.Coupon): Stripe.Coupon {
  const { redeem_by, max_redemptions, times_redeemed } = coupon;
  coupon.valid =
    (redeem_by === null || redeem_by > clock.now()) &&
    (max_redemptions === null || times_redeemed < max_redemptions);
  return coupon;
}
