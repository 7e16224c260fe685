import { type Db, execute, many, one } from "../../../kit/postgres/db.ts";
import type { ComputePeriod, Period } from "../periods.ts";

/** Lists the periods of an account's compute items, oldest first. */
export function listComputePeriods(db: Db, accountId: string) {
  return many<ComputePeriod>(
    db,
    "compute_periods_list",
    `select extract(epoch from started_at)::bigint as start, extract(epoch from ended_at)::bigint as end, tier
     from compute_periods where account_id = $1 order by started_at`,
    [accountId],
  );
}

/** Writes a period of a compute item; one that began earlier and reaches into it ends where it begins. */
export function upsertComputePeriod(db: Db, accountId: string, { start, end, tier }: ComputePeriod) {
  return execute(
    db,
    "compute_period_upsert",
    `with cut as (
       update compute_periods set ended_at = to_timestamp($2)
       where account_id = $1 and started_at < to_timestamp($2) and ended_at > to_timestamp($2))
     insert into compute_periods (account_id, started_at, ended_at, tier)
     values ($1, to_timestamp($2), to_timestamp($3), $4)
     on conflict (account_id, started_at) do update set ended_at = excluded.ended_at, tier = excluded.tier`,
    [accountId, start, end, tier],
  );
}

/** Returns when the last billed statement of an account ends (s); 0 without one. */
export async function billedUntil(db: Db, accountId: string): Promise<number> {
  const text = `select coalesce(extract(epoch from max(ended_at)), 0)::bigint as "until" from period_statements
    where account_id = $1 and billed`;
  return (await one<{ until: number }>(db, "billed_until", text, [accountId]))!.until;
}

export type AccountToFreeze = { accountId: string; frozenUntil: number };

/** Locks an account whose period may be over by a time, unless another replica has it; undefined when there is none. */
export function takeAccountToFreeze(db: Db, now: number) {
  return one<AccountToFreeze>(
    db,
    "usage_account_freeze",
    `select account_id as "accountId", extract(epoch from frozen_until)::bigint as "frozenUntil" from usage_accounts
     where freeze_at <= to_timestamp($1) order by freeze_at limit 1 for no key update skip locked`,
    [now],
  );
}

/** Records until when an account is frozen, and when it is to be frozen next. */
export function setFrozen(db: Db, accountId: string, frozenUntil: number, freezeAt: number) {
  return execute(
    db,
    "usage_account_frozen",
    "update usage_accounts set frozen_until = to_timestamp($2), freeze_at = to_timestamp($3) where account_id = $1",
    [accountId, frozenUntil, freezeAt],
  );
}

/** Returns a digest of the segments of a period: the same ones have the same. */
export async function digestSegments(db: Db, accountId: string, { start, end }: Period): Promise<Buffer> {
  const row = await one<{ digest: Buffer }>(
    db,
    "usage_digest",
    `select sha256(coalesce(string_agg(concat_ws(' ', interval_id, seq, extract(epoch from started_at),
       coalesce(extract(epoch from ended_at)::text, 'open'), replicas, rate), ';' order by interval_id, seq), '')::bytea)
       as digest
     from usage_segments where account_id = $1 and started_at < to_timestamp($3)
       and coalesce(ended_at, 'infinity') > to_timestamp($2)`,
    [accountId, start, end],
  );
  return row!.digest;
}

/** What a line of a statement says; amounts in nano-USD as text, `cents` of the statement's total. */
export type StatementLine = {
  serviceId?: string;
  /** As they were when the period was frozen. An earlier version did not write them. */
  serviceName?: string;
  projectName?: string;
  type: string;
  accrued: string;
  allowance: string;
  cents: string;
};

export type Statement = Period & {
  accountId: string;
  tier: string;
  billed: boolean;
  inputs: Buffer;
  accrued: bigint;
  allowance: bigint;
  adjustment: bigint;
  dueCents: bigint;
  /** What the plan's credit pays of it. */
  creditCents: bigint;
  lines: StatementLine[];
  now: number;
};

/** Writes a statement. One of a month is kept: it is frozen again after a period that was found late. */
export function insertStatement(db: Db, statement: Statement): Promise<number> {
  const { accountId, start, end, tier, billed, inputs, now, lines } = statement;
  const { accrued, allowance, adjustment, dueCents, creditCents } = statement;
  return execute(
    db,
    "statement_insert",
    `insert into period_statements (account_id, started_at, ended_at, tier, billed, inputs, accrued, allowance,
       adjustment, due_cents, credit_cents, lines, frozen_at)
     values ($1, to_timestamp($2), to_timestamp($3), $4, $5, $6, $7, $8, $9, $10, $11, $12, to_timestamp($13))
     on conflict do nothing`,
    [
      ...[accountId, start, end, tier, billed, inputs],
      ...[String(accrued), String(allowance), String(adjustment), String(dueCents), String(creditCents)],
      ...[JSON.stringify(lines), now],
    ],
  );
}

/** Returns what the billed period that ends at a time came to before the plan's credit, in whole cents; undefined until it is frozen. */
export async function findDueCents(db: Db, accountId: string, end: number): Promise<number | undefined> {
  const row = await one<{ cents: number }>(
    db,
    "statement_due",
    `select due_cents as cents from period_statements
     where account_id = $1 and started_at < to_timestamp($2) and ended_at >= to_timestamp($2) and billed`,
    [accountId, end],
  );
  return row?.cents;
}

/** `owed`: for its usage, corrections included. `writtenOff`: what of it was not asked for. */
export type CorrectedStatement = Period & { tier: string; owed: string; writtenOff: string };

/** Lists the billed statements that end after a time. */
export function listStatements(db: Db, accountId: string, after: number) {
  return many<CorrectedStatement>(
    db,
    "statements_list",
    `select extract(epoch from started_at)::bigint as start, extract(epoch from ended_at)::bigint as end, tier,
       (accrued - allowance + late.amount)::text as owed, late.written_off::text as "writtenOff"
     from period_statements p, lateral (
       select coalesce(sum(amount), 0) as amount, coalesce(sum(amount) filter (where written_off), 0) as written_off
       from adjustments a where a.account_id = $1 and a.period_start = p.started_at and a.reason = 'late_usage') late
     where account_id = $1 and billed and ended_at > to_timestamp($2) order by started_at`,
    [accountId, after],
  );
}

export type Adjustment = {
  accountId: string;
  at: number;
  periodStart: number;
  amount: bigint;
  reason: "late_usage" | "carried" | "invoiced" | "grace" | "uninvoiced";
  writtenOff?: boolean;
};

export function insertAdjustment(
  db: Db,
  { accountId, at, periodStart, amount, reason, writtenOff }: Adjustment,
) {
  return execute(
    db,
    "adjustment_insert",
    `insert into adjustments (account_id, at, period_start, amount, reason, written_off)
     values ($1, to_timestamp($2), to_timestamp($3), $4, $5, $6)`,
    [accountId, at, periodStart, String(amount), reason, writtenOff ?? false],
  );
}

/** Returns until when (s) an account's ledger is frozen; undefined when it never used anything. */
export async function findFrozenUntil(db: Db, accountId: string): Promise<number | undefined> {
  const text = `select extract(epoch from frozen_until)::bigint as "frozenUntil" from usage_accounts
    where account_id = $1`;
  return (await one<AccountToFreeze>(db, "usage_frozen_until", text, [accountId]))?.frozenUntil;
}
