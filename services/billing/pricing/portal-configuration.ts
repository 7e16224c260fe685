import type Stripe from "stripe";
import { nameAt, ownedBy } from "../stripe/installation.ts";

/** What the portal's configuration is found by. */
const PORTAL = "berth";

/**
 * Returns the id of an installation's configuration of the portal, which keeps customers from what goes past Berth's own rules. Two that
 * were made at once say the same; the older one counts.
 */
export async function findPortal(stripe: Stripe, installation: string): Promise<string | undefined> {
  const { data } = await stripe.billingPortal.configurations.list({ active: true, limit: 100 });
  return data.findLast(({ metadata }) => metadata?.berth === nameAt(installation, PORTAL))?.id;
}

/** Makes the portal's configuration. */
export function makePortal(
  stripe: Stripe,
  installation: string,
): Promise<Stripe.BillingPortal.Configuration> {
  const name = nameAt(installation, PORTAL);
  return stripe.billingPortal.configurations.create(
    {
      business_profile: { headline: "Invoices and payment methods" },
      features: {
        invoice_history: { enabled: true },
        payment_method_update: { enabled: true },
        customer_update: { enabled: true, allowed_updates: ["email", "address", "tax_id"] },
        subscription_cancel: { enabled: false },
        subscription_update: { enabled: false },
        subscription_pause: { enabled: false },
      },
      metadata: { berth: name, ...ownedBy(installation) },
    },
    // It has no name of its own, so that two at once would make two. The key holds for an hour, as does a 5xx under it.
    { idempotencyKey: `portal:${name}:${new Date().toISOString().slice(0, 13)}` },
  );
}
