import type { Pool } from "../../kit/postgres/db.ts";
import type { Provider } from "../stripe/provider.ts";
import { addCustomer, findCustomer } from "./sql.ts";

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
  const customerId = await provider.ask(async (stripe) => {
    const { data } = await stripe.customers.search({
      query: `metadata['accountId']:'${accountId}'`,
      limit: 1,
    });
    if (data[0]) return data[0].id;
    const made = await stripe.customers.create(
      { email, name: handle, metadata: { accountId } },
      // The search knows a new customer only after a while; until then the key does.
      { idempotencyKey: `customer:${accountId}` },
    );
    return made.id;
  }, "idempotency_key_in_use");
  await addCustomer(pool, accountId, customerId);
  return customerId;
}
