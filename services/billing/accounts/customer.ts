import { type Pool, transaction } from "../../kit/postgres/db.ts";
import { isOwn, ownedBy } from "../stripe/installation.ts";
import { discardIdempotencyKey, makeOnce } from "../stripe/make-once.ts";
import type { Provider } from "../stripe/provider.ts";
import { readIfThere } from "../stripe/provider.ts";
import type { ReadMembers } from "./read-members.ts";
import { addCustomer, findAccountOfCustomer, findCustomer, removeCustomer } from "./sql.ts";

type CustomerDetails = { accountId: string; email: string; handle: string };

/**
 * Returns the customer that an account is at the payment provider; makes it at first. To be called under the account's
 * lock. One that was made before a crash, and so is not recorded, is found by its metadata.
 */
export async function ensureCustomer(
  { pool, provider }: { pool: Pool; provider: Provider },
  { accountId, email, handle }: CustomerDetails,
): Promise<string> {
  const known = await findCustomer(pool, accountId);
  if (known !== undefined) return known;
  const { installation } = provider;
  const query = `metadata['accountId']:'${accountId}'`;
  const { data } = await provider.ask((stripe) => stripe.customers.search({ query, limit: 100 }));
  const about = { email, name: handle, metadata: { accountId, ...ownedBy(installation) } };
  // The search knows a new customer only after a while; until then the key of the request does.
  const { id } =
    data.find((customer) => isOwn(installation, customer)) ??
    (await makeOnce({ pool, provider }, nameOf(accountId), (stripe, options) =>
      stripe.customers.create(about, options),
    ));
  await addCustomer(pool, accountId, id);
  return id;
}

/**
 * Returns whose customer it is; the provider knows it, should this be recorded nowhere else. Undefined for a customer of
 * whom this installation knows nothing: several may share one account at the provider.
 */
export async function resolveAccount(
  { pool, provider, readMembers }: { pool: Pool; provider: Provider; readMembers: ReadMembers },
  customerId: string,
): Promise<string | undefined> {
  const known = await findAccountOfCustomer(pool, customerId);
  if (known !== undefined) return known;
  const accountId = await readAccountId(provider, customerId);
  if (!accountId || (await readMembers(accountId)).handle === "") return undefined;
  await addCustomer(pool, accountId, customerId);
  // Undefined when the account is another customer already.
  return findAccountOfCustomer(pool, customerId);
}

async function readAccountId(provider: Provider, customerId: string): Promise<string | undefined> {
  const customer = await readIfThere(provider, (stripe) => stripe.customers.retrieve(customerId));
  if (!customer || customer.deleted || !isOwn(provider.installation, customer)) return undefined;
  return customer.metadata.accountId;
}

/** Forgets a customer whom the payment provider has deleted: the account's next checkout makes another. */
export function forgetCustomer(pool: Pool, accountId: string, customerId: string): Promise<void> {
  return transaction(pool, async (tx) => {
    await removeCustomer(tx, customerId);
    await discardIdempotencyKey(tx, nameOf(accountId));
  });
}

const nameOf = (accountId: string) => `customer:${accountId}`;
