import { type Db, execute, one } from "../../kit/postgres/db.ts";

export type Reconciliation = "events" | "customers";

/**
 * Takes a reconciliation that is due at a time; no other replica does before `next`. Returns until when it is done, in
 * seconds since 1970, or null for never; undefined when it is not due.
 */
export async function takeReconciliation(db: Db, name: Reconciliation, now: Date, next: Date) {
  const row = await one<{ doneUntil: number | null }>(
    db,
    "reconciliation_take",
    `update reconciliations set next_at = $3 where name = $1 and next_at <= $2
     returning extract(epoch from done_until)::bigint as "doneUntil"`,
    [name, now, next],
  );
  return row?.doneUntil;
}

export function setReconciled(db: Db, name: Reconciliation, until: Date): Promise<number> {
  return execute(
    db,
    "reconciliation_done",
    "update reconciliations set done_until = greatest(done_until, $2) where name = $1",
    [name, until],
  );
}

/** Has a reconciliation that failed done again at a time. */
export function retryReconciliation(db: Db, name: Reconciliation, at: Date): Promise<number> {
  const text = "update reconciliations set next_at = least(next_at, $2) where name = $1";
  return execute(db, "reconciliation_retry", text, [name, at]);
}
