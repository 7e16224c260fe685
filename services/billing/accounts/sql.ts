import { type Db, execute, one } from "../../kit/postgres/db.ts";

export type Account = { tier: string | null; directAgreement: boolean };

/** Returns what billing knows of an account; one without a row has the installation's default plan. */
export async function findAccount(db: Db, accountId: string): Promise<Account> {
  const row = await one<Account>(
    db,
    "account_find",
    `select tier, direct_agreement as "directAgreement" from accounts where id = $1`,
    [accountId],
  );
  return row ?? { tier: null, directAgreement: false };
}

/** Sets an account's plan, unless it has it. Returns the revision of the change. */
export async function setTier(db: Db, accountId: string, tier: string): Promise<number | undefined> {
  const row = await one<{ revision: number }>(
    db,
    "account_set_tier",
    `insert into accounts (id, tier, tier_revision) values ($1, $2, 1)
     on conflict (id) do update set tier = $2, tier_revision = accounts.tier_revision + 1
       where accounts.tier is distinct from $2
     returning tier_revision as revision`,
    [accountId, tier],
  );
  return row?.revision;
}

/** Records whether an account is billed by agreement. Returns the revision of its plan; undefined when that was so. */
export async function putAgreement(db: Db, accountId: string, agreed: boolean, tier: string) {
  const row = await one<{ revision: number }>(
    db,
    "account_put_agreement",
    `insert into accounts as a (id, tier, tier_revision, direct_agreement)
     select $1, $3, 1, $2 where $2 or exists (select from accounts where id = $1)
     on conflict (id) do update set direct_agreement = $2, tier = $3, tier_revision = a.tier_revision + 1,
       agreement_until = case when $2 then a.agreement_until else now() end
       where a.direct_agreement <> $2
     returning tier_revision as revision`,
    [accountId, agreed, tier],
  );
  return row?.revision;
}

export async function findCustomer(db: Db, accountId: string): Promise<string | undefined> {
  const row = await one<{ customerId: string }>(
    db,
    "customer_find",
    `select customer_id as "customerId" from customers where account_id = $1`,
    [accountId],
  );
  return row?.customerId;
}

export async function findAccountOfCustomer(db: Db, customerId: string): Promise<string | undefined> {
  const row = await one<{ accountId: string }>(
    db,
    "customer_account",
    `select account_id as "accountId" from customers where customer_id = $1`,
    [customerId],
  );
  return row?.accountId;
}

/** Records the customer that an account is at the payment provider, once. */
export function addCustomer(db: Db, accountId: string, customerId: string): Promise<number> {
  return execute(
    db,
    "customer_add",
    "insert into customers (account_id, customer_id) values ($1, $2) on conflict do nothing",
    [accountId, customerId],
  );
}

/** Returns the name at the payment provider of the installation that the database belongs to; of a new one, `name`. */
export async function claimInstallation(db: Db, name: string): Promise<string> {
  const row = await one<{ name: string }>(
    db,
    "installation_claim",
    `insert into installation (name) values ($1)
     on conflict (singleton) do update set name = installation.name returning name`,
    [name],
  );
  return row!.name;
}

/** Forgets a customer, whom the payment provider has deleted. */
export function removeCustomer(db: Db, customerId: string): Promise<number> {
  return execute(db, "customer_remove", "delete from customers where customer_id = $1", [customerId]);
}

/** Returns the customer of an account that has a subscription with one of these statuses. */
export async function findSubscribedCustomer(
  db: Db,
  accountId: string,
  statuses: string[],
): Promise<string | undefined> {
  const row = await one<{ customerId: string }>(
    db,
    "customer_subscribed",
    `select customer_id as "customerId" from customers c where account_id = $1
       and exists (select from subscriptions s where s.account_id = c.account_id and s.status = any($2))`,
    [accountId, statuses],
  );
  return row?.customerId;
}
