import type { Pool } from "../../kit/postgres/db.ts";
import { conflict } from "../../kit/rpc/refusals.ts";
import { markCustomer } from "../due/sql.ts";
import { findPortal } from "../pricing/portal-configuration.ts";
import { notSetUp } from "../pricing/price-ids.ts";
import { isRefused, type Provider } from "../stripe/provider.ts";
import { findCustomer } from "./sql.ts";

/** Opens the provider's page with an account's invoices and payment methods, and returns its URL, a secret. */
export type OpenPortal = (accountId: string) => Promise<string>;

type Deps = { pool: Pool; provider: Provider; returnUrl: (accountId: string) => string };

/** The portal (docs/billing.md#portal). Throws 409 no_billing_customer and 502 payment_provider_unavailable. */
export function createPortal({ pool, provider, returnUrl }: Deps): OpenPortal {
  let known: string | undefined;
  return async (accountId) => {
    const customer = await findCustomer(pool, accountId);
    if (customer === undefined)
      throw conflict("no_billing_customer", "The account has bought nothing yet. Subscribe first.");
    known ??= await provider.ask((stripe) => findPortal(stripe, provider.installation));
    if (known === undefined) throw notSetUp();
    const configuration = known;
    const session = { customer, configuration, return_url: returnUrl(accountId) };
    try {
      return (await provider.ask((stripe) => stripe.billingPortal.sessions.create(session))).url;
    } catch (error) {
      // Somebody may have taken the configuration away, or deleted the customer.
      known = undefined;
      if (isRefused(error)) await markCustomer(pool, customer);
      throw error;
    }
  };
}
