import { type Cadence, type PaidTier, PLANS } from "./plans.ts";
import { PRICE_VERSION } from "./price-versions.ts";

/** What a price of Stripe is for. */
export type PriceKind = "plan" | "seat" | "compute";

/** The `lookup_key` of a price: its name at Stripe, which Berth finds it by. Of the price list in force unless told otherwise. */
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
