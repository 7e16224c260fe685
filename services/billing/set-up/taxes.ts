import type Stripe from "stripe";
import { lookupKey, soldPrices } from "../pricing/keys.ts";
import { nameAt } from "../stripe/installation.ts";
import { type Finding, fine, unseen, wrong } from "./finding.ts";

const DASHBOARD = "In the Dashboard, under Tax";

/** Returns whether Stripe Tax can add taxes to what is sold. */
export async function checkTaxes(stripe: Stripe, installation: string): Promise<Finding[]> {
  const findings: Finding[] = [];
  const { status, status_details: details } = await stripe.tax.settings.retrieve();
  if (status !== "active") {
    const missing = details.pending?.missing_fields?.join(", ") ?? "";
    findings.push(
      wrong(
        `Stripe Tax is not active${missing && `: ${missing} is missing`}.`,
        `${DASHBOARD}, Settings: complete it. Until then no checkout can be opened.`,
      ),
    );
  }
  const { data } = await stripe.tax.registrations.list({ status: "active", limit: 100 });
  if (data.length === 0)
    findings.push(
      wrong(
        "There is no tax registration, so no tax is added anywhere.",
        `${DASHBOARD}, Registrations: add the countries and states in which you are registered.`,
      ),
    );
  for (const key of soldKeys(installation)) {
    const [price] = (await stripe.prices.list({ lookup_keys: [key], limit: 1 })).data;
    if (price && price.tax_behavior !== "exclusive")
      findings.push(
        wrong(
          `The price ${key} is ${price.tax_behavior === "inclusive" ? "with" : "not said to be without"} tax.`,
          "Run npm run stripe:seed with STRIPE_TAX=on and a key that may change prices.",
        ),
      );
  }
  if (findings.length > 0) return findings;
  const countries = data.map(({ country }) => country).join(", ");
  return [
    fine(`Taxes are added to all prices, for customers in ${countries}.`),
    unseen("Whether you are registered wherever you have to be: ask a tax adviser."),
  ];
}

const soldKeys = (installation: string) =>
  [
    lookupKey("compute"),
    ...soldPrices().map(({ kind, tier, cadence }) => lookupKey(kind, tier, cadence)),
  ].map((key) => nameAt(installation, key));
