import { type Db, execute, one } from "../../kit/postgres/db.ts";

export async function isProvisioned(db: Db, accountId: string): Promise<boolean> {
  const text = "select id from accounts where id = $1 and provisioned_at is not null";
  return (await one(db, "account_provisioned", text, [accountId])) !== undefined;
}

/** Returns 0 when the account was provisioned before. Waits for another transaction that does the same. */
export function markProvisioned(db: Db, accountId: string) {
  return execute(
    db,
    "account_provision",
    `insert into accounts (id, provisioned_at) values ($1, now())
     on conflict (id) do update set provisioned_at = now() where accounts.provisioned_at is null`,
    [accountId],
  );
}

export function setTier(db: Db, accountId: string, tier: string) {
  return execute(
    db,
    "account_tier_set",
    "insert into accounts (id, tier) values ($1, $2) on conflict (id) do update set tier = $2",
    [accountId, tier],
  );
}

export async function findTier(db: Db, accountId: string): Promise<string | undefined> {
  const row = await one<{ tier: string }>(db, "account_tier", "select tier from accounts where id = $1", [
    accountId,
  ]);
  return row?.tier;
}
