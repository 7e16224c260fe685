// Statements on the data keys of accounts.
import { type Db, execute, many, one } from "../../kit/postgres/db.ts";
import type { WrappedKey } from "./seal.ts";

export function findDataKey(db: Db, accountId: string) {
  return one<WrappedKey>(
    db,
    "data_key",
    `select kek_id as "kekId", wrapped from data_keys where account_id = $1`,
    [accountId],
  );
}

/** Stores the first data key of an account, unless it has one, or has sealed values whose key was lost. */
export function insertDataKey(db: Db, accountId: string, key: WrappedKey) {
  return execute(
    db,
    "data_key_insert",
    `insert into data_keys (account_id, kek_id, wrapped) select $1, $2, $3
     where not exists (select from scopes s join variables v on v.scope_id = s.id
       where s.account_id = $1 and v.sealed is not null)
     on conflict (account_id) do nothing`,
    [accountId, key.kekId, key.wrapped],
  );
}

/** Lists data keys wrapped by another key than `kekId`, by account, from `after` on. */
export function listDataKeysToRewrap(db: Db, kekId: string, after: string, limit: number) {
  return many<WrappedKey & { accountId: string }>(
    db,
    "data_keys_to_rewrap",
    `select account_id as "accountId", kek_id as "kekId", wrapped from data_keys
     where kek_id <> $1 and account_id > $2 order by account_id limit $3`,
    [kekId, after, limit],
  );
}

/** Replaces a wrapped data key, unless another process was first. */
export function rewrapDataKey(db: Db, accountId: string, from: WrappedKey, to: WrappedKey) {
  return execute(
    db,
    "data_key_rewrap",
    "update data_keys set kek_id = $3, wrapped = $4 where account_id = $1 and wrapped = $2",
    [accountId, from.wrapped, to.kekId, to.wrapped],
  );
}

/** Deletes the data key of an account whose values are deleted: copies of them in backups stay sealed. */
export function deleteDataKey(db: Db, accountId: string) {
  return execute(db, "data_key_delete", "delete from data_keys where account_id = $1", [accountId]);
}
