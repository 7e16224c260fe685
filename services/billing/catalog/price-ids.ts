import { refuse } from "../../kit/rpc/errors.ts";
import type { Provider } from "../stripe/provider.ts";
import { lookupKey, soldPrices } from "./keys.ts";
import type { Cadence, PaidTier } from "./plans.ts";

/** The prices in force, by their ids at the payment provider. */
export type PriceIds = () => Promise<{
  compute: string;
  of: (kind: "plan" | "seat", tier: PaidTier, cadence: Cadence) => string;
}>;

/** The most lookup keys that a list of prices takes. */
const KEYS = 10;

/**
 * Returns a function that finds the prices by their lookup keys, once they are there. Throws 502
 * payment_provider_unavailable while some are missing: the seeding command makes them.
 */
export function createPriceIds(provider: Provider): PriceIds {
  let known: Map<string, string> | undefined;

  async function read(): Promise<Map<string, string>> {
    const keys = [
      lookupKey("compute"),
      ...soldPrices().map((one) => lookupKey(one.kind, one.tier, one.cadence)),
    ];
    const chunks = Array.from({ length: Math.ceil(keys.length / KEYS) }, (_, n) =>
      keys.slice(n * KEYS, (n + 1) * KEYS),
    );
    const lists = await provider.ask((stripe) =>
      Promise.all(chunks.map((lookup_keys) => stripe.prices.list({ lookup_keys, limit: KEYS }))),
    );
    const found = new Map(
      lists.flatMap(({ data }) => data.map(({ id, lookup_key }) => [lookup_key ?? "", id])),
    );
    if (keys.some((key) => !found.has(key))) throw notSetUp();
    return found;
  }

  return async () => {
    known ??= await read();
    const ids = known;
    return {
      compute: ids.get(lookupKey("compute"))!,
      of: (kind, tier, cadence) => ids.get(lookupKey(kind, tier, cadence))!,
    };
  };
}

/** Returns the refusal while what is sold is not set up at the payment provider. */
export const notSetUp = () =>
  refuse(
    502,
    "payment_provider_unavailable",
    "The plans are not set up at the payment provider. Tell the operator of this installation.",
  );
