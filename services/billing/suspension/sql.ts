import { type Db, execute, one } from "../../kit/postgres/db.ts";
import type { Next, Recorded } from "./next-state.ts";

const seconds = (column: string) => `extract(epoch from ${column})::float8`;

const RECORDED = `needs_plan as "needsPlan", ${seconds("grace_from")} as "graceFrom",
  ${seconds("grace_until")} as "graceUntil", stages, ${seconds("limit_until")} as "limitUntil", reason, revision,
  ${seconds("changed_at")} as "changedAt", ${seconds("announced_at")} as "announcedAt"`;

/** Locks an account that is to be looked at by a time (s), unless another replica has it; undefined when there is none. */
export function takeAccount(db: Db, now: number) {
  return one<Recorded & { accountId: string; hadPlan: boolean }>(
    db,
    "suspension_take",
    `select account_id as "accountId", ${RECORDED},
       exists (select from compute_periods p where p.account_id = s.account_id) as "hadPlan"
     from suspensions s where check_at <= to_timestamp($1)
     order by check_at limit 1 for no key update skip locked`,
    [now],
  );
}

/** Records what follows for an account that is locked. */
export function setState(db: Db, accountId: string, next: Next): Promise<number> {
  return execute(
    db,
    "suspension_set",
    `update suspensions set grace_from = to_timestamp($2), grace_until = to_timestamp($3), stages = $4, reason = $5,
       revision = $6, changed_at = to_timestamp($7), announced_at = to_timestamp($8),
       check_at = coalesce(to_timestamp($9), 'infinity')
     where account_id = $1`,
    [
      ...[accountId, next.graceFrom, next.graceUntil, next.stages, next.reason],
      ...[next.revision, next.changedAt, next.announcedAt, next.checkAt ?? null],
    ],
  );
}

/** Has an account looked at again at a time (s). */
export function setCheckAt(db: Db, accountId: string, at: number): Promise<number> {
  const text = "update suspensions set check_at = to_timestamp($2) where account_id = $1";
  return execute(db, "suspension_check", text, [accountId, at]);
}

/** Records that an account without a plan runs more than the allowance, unless that is known. */
export function markBeyondAllowance(db: Db, accountId: string): Promise<number> {
  return execute(
    db,
    "suspension_beyond",
    `insert into suspensions as s (account_id, needs_plan) values ($1, true)
     on conflict (account_id) do update set needs_plan = true, check_at = '-infinity' where not s.needs_plan`,
    [accountId],
  );
}

/** Records the end (s) of the period whose spend limit is reached; undefined when it is not. */
export async function setLimitUntil(db: Db, accountId: string, until: number | undefined): Promise<void> {
  if (until === undefined)
    await execute(
      db,
      "suspension_limit_clear",
      `update suspensions set limit_until = null, check_at = '-infinity'
       where account_id = $1 and limit_until is not null`,
      [accountId],
    );
  else
    await execute(
      db,
      "suspension_limit_set",
      `insert into suspensions as s (account_id, limit_until) values ($1, to_timestamp($2))
       on conflict (account_id) do update set limit_until = excluded.limit_until, check_at = '-infinity'
       where s.limit_until is distinct from excluded.limit_until`,
      [accountId, until],
    );
}

/** Whether an account's services beyond the allowance are stopped, or will be, because its spend limit is reached. */
export async function isLimitReached(db: Db, accountId: string, now: number): Promise<boolean> {
  const text = "select from suspensions where account_id = $1 and limit_until > to_timestamp($2)";
  return (await one(db, "suspension_limit_reached", text, [accountId, now])) !== undefined;
}

/** Forgets an account, which was deleted. */
export async function deleteSuspension(db: Db, accountId: string): Promise<void> {
  await execute(db, "suspension_delete", "delete from suspensions where account_id = $1", [accountId]);
}
