import { type Cadence, isPaidTier, type PaidTier, PLANS } from "./plans.ts";
import { PRICE_VERSION } from "./price-versions.ts";

/** What a price of Stripe is for. */
export type PriceKind = "plan" | "seat" | "compute";

/** The `lookup_key` of a price: its name at Stripe, which Berth finds it by. Of the price list in force unless `version` is given. */
export function lookupKey(kind: "compute"): string;
export function lookupKey(kind: "plan" | "seat", tier: PaidTier, cadence: Cadence, version?: string): string;
export function lookupKey(
  kind: PriceKind,
  tier?: PaidTier,
  cadence: Cadence = "monthly",
  version = PRICE_VERSION,
): string {
  return [kind, tier, cadence, version].filter(Boolean).join("_");
}

/** The id of a product of Stripe: chosen by Berth, so that no second one can be made. */
export function productId(kind: "compute"): string;
export function productId(kind: "plan" | "seat", tier: PaidTier): string;
export function productId(kind: PriceKind, tier?: PaidTier): string {
  return ["berth", kind, tier].filter(Boolean).join("_");
}

const PRODUCT = /^berth_(?:(compute)|(plan|seat)_([a-z]+?))(?:_[a-z0-9-]+)?$/;

/** Returns what a product of Stripe is for, of whichever installation; undefined of one that Berth did not make. */
export function kindOfProduct(id: string): { kind: PriceKind; tier?: PaidTier } | undefined {
  const [, compute, kind, tier] = PRODUCT.exec(id) ?? [];
  if (compute) return { kind: "compute" };
  if (!kind || !tier || !isPaidTier(tier)) return undefined;
  return { kind: kind as PriceKind, tier };
}

const CADENCES: Cadence[] = ["monthly", "annual"];

/** All prices that are sold, by lookup key. */
export function soldPrices() {
  const tiers = Object.keys(PLANS) as PaidTier[];
  return tiers.flatMap((tier) =>
    CADENCES.flatMap((cadence) => [
      { kind: "plan" as const, tier, cadence, monthlyCents: PLANS[tier].monthlyCents },
      { kind: "seat" as const, tier, cadence, monthlyCents: PLANS[tier].seatCents },
    ]),
  );
}
