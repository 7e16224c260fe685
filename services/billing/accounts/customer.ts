import { type Pool, transaction } from "../../kit/postgres/db.ts";
import { makeAnother, makeOnce } from "../stripe/make-once.ts";
import type { Provider } from "../stripe/provider.ts";
import { addCustomer, findCustomer, removeCustomer } from "./sql.ts";

type About = { accountId: string; email: string; handle: string };

/**
 * Returns the customer that an account is at the payment provider; makes it at first. To be called under the account's
 * lock. One that was made before a crash, and so is not recorded, is found by its metadata.
 */
export async function ensureCustomer(
  { pool, provider }: { pool: Pool; provider: Provider },
  { accountId, email, handle }: About,
): Promise<string> {
  const known = await findCustomer(pool, accountId);
  if (known !== undefined) return known;
  const query = `metadata['accountId']:'${accountId}'`;
  const { data } = await provider.ask((stripe) => stripe.customers.search({ query, limit: 1 }));
  const about = { email, name: handle, metadata: { accountId } };
  // The search knows a new customer only after a while; until then the key of the request does.
  const { id } =
    data[0] ??
    (await makeOnce({ pool, provider }, nameOf(accountId), (stripe, options) =>
      stripe.customers.create(about, options),
    ));
  await addCustomer(pool, accountId, id);
  return id;
}

/** Forgets a customer whom the payment provider has deleted: the account's next checkout makes another. */
export function forgetCustomer(pool: Pool, accountId: string, customerId: string): Promise<void> {
  return transaction(pool, async (tx) => {
    await removeCustomer(tx, customerId);
    await makeAnother(tx, nameOf(accountId));
  });
}

const nameOf = (accountId: string) => `customer:${accountId}`;
