// Statements on the installation's first user and account.
import { type Db, execute, one, type Tx } from "../../kit/postgres/db.ts";

/** The installation's first user and account; `email` is the one that was configured then. */
export type BootstrapRow = { email: string; userId: string; accountId: string; tokenId: string | null };

/** Locks out the bootstrap of other replicas until the transaction ends. */
export async function lockBootstrap(tx: Tx): Promise<void> {
  await tx.query("select pg_advisory_xact_lock(hashtext('berth-bootstrap:' || current_schema()))");
}

export function findBootstrap(db: Db) {
  return one<BootstrapRow>(
    db,
    "bootstrap_find",
    `select email, user_id as "userId", account_id as "accountId", token_id as "tokenId" from bootstrap`,
  );
}

export function insertBootstrap(db: Db, row: Omit<BootstrapRow, "tokenId">) {
  const text = "insert into bootstrap (email, user_id, account_id) values ($1, $2, $3)";
  return execute(db, "bootstrap_insert", text, [row.email, row.userId, row.accountId]);
}

export function setBootstrapToken(db: Db, tokenId: string) {
  return execute(db, "bootstrap_set_token", "update bootstrap set token_id = $1", [tokenId]);
}

/** Returns the installation's first account if the user owns it: its owners are the operators. */
export function findOperatorAccount(db: Db, userId: string) {
  return one<{ accountId: string }>(
    db,
    "operator_account",
    `select b.account_id as "accountId" from bootstrap b
     join memberships m on m.account_id = b.account_id and m.user_id = $1 and m.role = 'owner'`,
    [userId],
  );
}
