import { refuse } from "../../kit/rpc/refusals.ts";
import { nameAt } from "../stripe/installation.ts";
import type { Provider } from "../stripe/provider.ts";

/**
 * Returns the id of a price of this installation at the payment provider, by its lookup key without the name. Throws 502 payment_provider_unavailable while
 * there is none: the seeding command makes it.
 */
export type PriceId = (lookupKey: string) => Promise<string>;

/** Returns a function that caches each price once it exists: prices never change. */
export function createPriceId(provider: Provider): PriceId {
  const known = new Map<string, string>();
  return async (key) => {
    const lookupKey = nameAt(provider.installation, key);
    const found = known.get(lookupKey);
    if (found !== undefined) return found;
    const { data } = await provider.ask((stripe) =>
      stripe.prices.list({ lookup_keys: [lookupKey], limit: 1 }),
    );
    if (!data[0]) throw notSetUp();
    known.set(lookupKey, data[0].id);
    return data[0].id;
  };
}

/** Returns the refusal while what is sold is not set up at the payment provider. */
export const notSetUp = () =>
  refuse(
    502,
    "payment_provider_unavailable",
    "The plans are not set up at the payment provider. Tell the operator of this installation.",
  );
