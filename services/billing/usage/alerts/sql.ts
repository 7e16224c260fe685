import { type Db, execute, many, one } from "../../../kit/postgres/db.ts";

/** Locks an account whose spend is to be compared with its budget, unless another replica has it. */
export async function takeAccountToAlert(db: Db, now: number): Promise<string | undefined> {
  const text = `select account_id as "accountId" from usage_accounts where alert_at <= to_timestamp($1)
    order by alert_at limit 1 for no key update skip locked`;
  return (await one<{ accountId: string }>(db, "usage_account_alert", text, [now]))?.accountId;
}

export function setAlertAt(db: Db, accountId: string, at: number): Promise<number> {
  const text = "update usage_accounts set alert_at = to_timestamp($2) where account_id = $1";
  return execute(db, "usage_account_alerted", text, [accountId, at]);
}

/** Records that shares of the budget were reached in a period. Returns those that had not been. */
export async function insertAlerts(
  db: Db,
  accountId: string,
  periodStart: number,
  percents: number[],
  now: number,
): Promise<number[]> {
  const rows = await many<{ percent: number }>(
    db,
    "usage_alerts_insert",
    `insert into usage_alerts (account_id, period_start, percent, at)
     select $1, to_timestamp($2), percent, to_timestamp($4) from unnest($3::int[]) percent
     on conflict do nothing returning percent`,
    [accountId, periodStart, percents, now],
  );
  return rows.map(({ percent }) => percent);
}
