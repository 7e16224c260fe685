import type Stripe from "stripe";
import { kindOfProduct, lookupKey, soldPrices } from "../pricing/keys.ts";
import { type Cadence, type PaidTier, termCents } from "../pricing/plans.ts";
import { findPortal } from "../pricing/portal-configuration.ts";
import { METER } from "../pricing/seed.ts";
import { nameAt } from "../stripe/installation.ts";
import { type Finding, fine, wrong } from "./finding.ts";

const SEED = "Run npm run stripe:seed with a key that may make it.";

/** Returns whether Stripe has what is sold, at the prices of the list, and whether promo codes can be redeemed. */
export async function checkSold(stripe: Stripe, installation: string): Promise<Finding[]> {
  const findings = [...(await checkPrices(stripe, installation)), ...(await checkCodes(stripe))];
  const { data } = await stripe.billing.meters.list({ status: "active", limit: 100 });
  const meter = nameAt(installation, METER);
  if (!data.some(({ event_name }) => event_name === meter))
    findings.push(wrong(`The meter ${meter} is missing.`, SEED));
  if ((await findPortal(stripe, installation)) === undefined)
    findings.push(wrong("The configuration of the portal is missing.", SEED));
  const of = installation === "" ? "" : ` It is that of the installation ${installation}.`;
  return findings.length > 0 ? findings : [fine(`All that is sold exists, at the prices of the list.${of}`)];
}

async function checkPrices(stripe: Stripe, installation: string): Promise<Finding[]> {
  const wanted: { key: string; cents: number | undefined }[] = [
    { key: nameAt(installation, lookupKey("compute")), cents: undefined },
    ...soldPrices().map(({ kind, tier, cadence, monthlyCents }) => ({
      key: nameAt(installation, keyOf(kind, tier, cadence)),
      cents: termCents(monthlyCents, cadence),
    })),
  ];
  const findings: Finding[] = [];
  for (const { key, cents } of wanted) {
    const [price] = (await stripe.prices.list({ lookup_keys: [key], limit: 1 })).data;
    if (!price) findings.push(wrong(`The price ${key} is missing.`, SEED));
    else if (!price.active)
      findings.push(wrong(`The price ${key} is archived.`, "Activate it again in the Dashboard."));
    else if (cents !== undefined && (price.unit_amount !== cents || price.currency !== "usd"))
      findings.push(
        wrong(
          `The price ${key} is ${price.unit_amount} ${price.currency}, not ${cents} usd (in cents).`,
          "Remove its lookup key in the Dashboard, then run npm run stripe:seed.",
        ),
      );
  }
  return findings;
}

const keyOf = (kind: "plan" | "seat", tier: PaidTier, cadence: Cadence) => lookupKey(kind, tier, cadence);

async function checkCodes(stripe: Stripe): Promise<Finding[]> {
  const { data } = await stripe.promotionCodes.list({
    active: true,
    limit: 100,
    expand: ["data.promotion.coupon.applies_to"],
  });
  return data.flatMap(({ code, promotion: { coupon } }) => {
    const products = typeof coupon === "object" ? coupon?.applies_to?.products : undefined;
    return products && !products.some((id) => kindOfProduct(id)?.kind === "compute")
      ? []
      : wrong(
          `The promo code ${code} would also discount compute, so nobody can redeem it.`,
          "Make another coupon and code, restricted to the products of plans and members.",
        );
  });
}
