import { type Db, execute, one } from "../../kit/postgres/db.ts";

/** Records that the seats of an account's subscription have to be compared with its members. */
export function putSeatCheck(db: Db, accountId: string): Promise<number> {
  return execute(
    db,
    "seat_check_put",
    `insert into seat_checks (account_id) values ($1)
     on conflict (account_id) do update set revision = excluded.revision`,
    [accountId],
  );
}

/** Returns the revision of an account's check; undefined when there is none. */
export async function findSeatCheck(db: Db, accountId: string): Promise<number | undefined> {
  const text = "select revision from seat_checks where account_id = $1";
  return (await one<{ revision: number }>(db, "seat_check_find", text, [accountId]))?.revision;
}

/** Deletes the check of an account; with a revision, unless it was recorded again since. */
export function deleteSeatCheck(db: Db, accountId: string, revision?: number): Promise<number> {
  const text = "delete from seat_checks where account_id = $1 and ($2::bigint is null or revision = $2)";
  return execute(db, "seat_check_delete", text, [accountId, revision ?? null]);
}
