import { type Db, execute, many, one } from "../../kit/postgres/db.ts";

/** Returns what an account may spend on compute in a period, in cents; undefined without a limit. */
export async function findSpendLimit(db: Db, accountId: string): Promise<number | undefined> {
  const text = `select limit_cents as "limitCents" from spend_limits where account_id = $1`;
  return (await one<{ limitCents: number }>(db, "spend_limit_find", text, [accountId]))?.limitCents;
}

export async function putSpendLimit(db: Db, accountId: string, limitCents: number): Promise<void> {
  await execute(
    db,
    "spend_limit_put",
    `insert into spend_limits (account_id, limit_cents) values ($1, $2)
     on conflict (account_id) do update set limit_cents = excluded.limit_cents`,
    [accountId, limitCents],
  );
}

export async function deleteSpendLimit(db: Db, accountId: string): Promise<void> {
  await execute(db, "spend_limit_delete", "delete from spend_limits where account_id = $1", [accountId]);
}

/** Records that shares of a limit were reached in a period. Returns those that had not been. */
export async function insertLimitAlerts(
  db: Db,
  accountId: string,
  period: { start: number; limitCents: number },
  percents: number[],
  now: number,
): Promise<number[]> {
  const rows = await many<{ percent: number }>(
    db,
    "spend_limit_alerts_insert",
    `insert into spend_limit_alerts (account_id, period_start, limit_cents, percent, at)
     select $1, to_timestamp($2), $3, percent, to_timestamp($5) from unnest($4::int[]) percent
     on conflict do nothing returning percent`,
    [accountId, period.start, period.limitCents, percents, now],
  );
  return rows.map(({ percent }) => percent);
}
