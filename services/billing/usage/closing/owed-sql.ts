import { type Db, many, one } from "../../../kit/postgres/db.ts";
import type { Period } from "../periods.ts";
import type { Adjustment } from "./sql.ts";

/** What is owed with the next subscription: it counts in no other period. */
const OWED = "reason in ('grace', 'uninvoiced')";

/** When the last period that is billed ended, of those until $2; its statement may not be written yet. */
const BILLED_UNTIL = `(select coalesce(max(ended_at), '-infinity') from compute_periods
  where account_id = $1 and ended_at <= to_timestamp($2))`;

/**
 * The corrections that count in a period from $2 to $3, which is billed or not ($4): those that were found in it, and what
 * was to be returned, or owed with the next subscription, since the last period that is billed.
 */
const ADJUSTMENTS = `from adjustments
  where account_id = $1 and at < to_timestamp($3) and not written_off and ($4 or not ${OWED})
    and (at >= to_timestamp($2) or (amount < 0 or ${OWED}) and at >= ${BILLED_UNTIL})`;

type CountedIn = Period & { billed: boolean };

/** Adds up the corrections that count in a period. */
export async function sumAdjustments(
  db: Db,
  accountId: string,
  { start, end, billed }: CountedIn,
): Promise<bigint> {
  const row = await one<{ amount: string }>(
    db,
    "adjustments_sum",
    `select coalesce(sum(amount), 0)::text as amount ${ADJUSTMENTS}`,
    [accountId, start, end, billed],
  );
  return BigInt(row!.amount);
}

/** What a correction is about; amounts in nano-USD as text. */
export type AdjustmentRow = { periodStart: number; reason: Adjustment["reason"]; amount: string };

/** Lists the corrections that count in a period, by the period that they correct. */
export function listAdjustments(
  db: Db,
  accountId: string,
  { start, end, billed }: CountedIn,
): Promise<AdjustmentRow[]> {
  return many<AdjustmentRow>(
    db,
    "adjustments_list",
    `select extract(epoch from period_start)::bigint as "periodStart", reason, sum(amount)::text as amount
     ${ADJUSTMENTS} group by period_start, reason order by period_start, reason`,
    [accountId, start, end, billed],
  );
}

/**
 * Returns from when (s) what an account runs beyond the allowance in a period that is not billed is owed with its next
 * subscription: since a plan, or an agreement, has ended; undefined for an account that never had a plan, and while it has
 * a subscription of which only the period is not known yet.
 */
export async function findOwedFrom(
  db: Db,
  accountId: string,
  { start }: Period,
): Promise<number | undefined> {
  const row = await one<{ from: number }>(
    db,
    "owed_from",
    `select greatest($2::float8, extract(epoch from (select a.agreement_until from accounts a where a.id = $1))::float8) as from
     where exists (select from compute_periods p where p.account_id = $1 and p.ended_at <= to_timestamp($2))
       and not exists (select from accounts a where a.id = $1 and a.direct_agreement)
       and not exists (select from subscriptions s where s.account_id = $1 and s.created_at <= to_timestamp($2)
         and s.status not in ('canceled', 'incomplete_expired')
         and not exists (select from compute_periods p where p.account_id = $1 and p.started_at >= to_timestamp($2)))`,
    [accountId, start],
  );
  return row && Math.ceil(row.from);
}

/** Adds up what is recorded as owed with the next subscription, since the last period until a time (s) that is billed. */
export async function sumOwed(db: Db, accountId: string, at: number): Promise<bigint> {
  const row = await one<{ amount: string }>(
    db,
    "adjustments_owed",
    `select coalesce(sum(amount), 0)::text as amount from adjustments
     where account_id = $1 and ${OWED} and not written_off and at >= ${BILLED_UNTIL}`,
    [accountId, at],
  );
  return BigInt(row!.amount);
}

/** Lists the periods that were closed as not billed and overlap with one, with what they came to owe. */
export function listOwedBy(db: Db, accountId: string, { start, end }: Period) {
  return many<Period & { tier: string; owed: string }>(
    db,
    "statements_owed_by",
    `select extract(epoch from p.started_at)::bigint as start, extract(epoch from p.ended_at)::bigint as end, p.tier,
       sum(a.amount)::text as owed
     from period_statements p
     join adjustments a on a.account_id = $1 and a.period_start = p.started_at and a.reason = 'grace'
     where p.account_id = $1 and not p.billed and p.started_at < to_timestamp($3) and p.ended_at > to_timestamp($2)
     group by p.started_at, p.ended_at, p.tier`,
    [accountId, start, end],
  );
}
