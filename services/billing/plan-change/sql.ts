import type { Timestamp } from "@bufbuild/protobuf/wkt";
import { type Db, execute, many, one } from "../../kit/postgres/db.ts";
import type { Who } from "../../kit/rpc/interceptor.ts";
import type { Cadence, PaidTier } from "../pricing/plans.ts";

/**
 * What is requested: a larger plan now, another plan or cadence when the period ends, that a pending change is undone, or that
 * a cancellation is.
 */
export type PlanChangeKind = "upgrade" | "schedule" | "keep" | "resume";

/**
 * How far a change is: requested; requested, and nobody knows whether the provider made it; made; or never made
 * (docs/billing.md#changing-the-plan).
 */
export type PlanChangeStep = "asked" | "uncertain" | "done" | "refused";

export type PlanChange = {
  id: string;
  accountId: string;
  subscriptionId: string;
  kind: PlanChangeKind;
  tier: PaidTier;
  cadence: Cadence;
  /** The members beyond those that the plan includes. */
  seats: number;
  /** From when time is charged, by the provider's clock. */
  chargedFrom: Timestamp;
  requestedBy: Who;
  step: PlanChangeStep;
  askedAt: Timestamp;
};

const CHANGE = `id, account_id as "accountId", subscription_id as "subscriptionId", kind, tier, cadence, seats,
  charged_from as "chargedFrom", requested_by as "requestedBy", step, asked_at as "askedAt"`;

export type PlanChangeRequest = Omit<PlanChange, "chargedFrom" | "step" | "askedAt"> & {
  chargedFrom: number;
};

/**
 * Records a change before the provider is asked for it. The worker leaves it to the request that made it for a while.
 */
export function requestPlanChange(db: Db, change: PlanChangeRequest): Promise<PlanChange | undefined> {
  const { id, accountId, subscriptionId, kind, tier, cadence, seats, chargedFrom, requestedBy } = change;
  return one<PlanChange>(
    db,
    "plan_change_ask",
    `insert into plan_changes (id, account_id, subscription_id, kind, tier, cadence, seats, charged_from, requested_by, next_at)
     values ($1, $2, $3, $4, $5, $6, $7, to_timestamp($8), $9, now() + interval '10 s') returning ${CHANGE}`,
    [id, accountId, subscriptionId, kind, tier, cadence, seats, chargedFrom, JSON.stringify(requestedBy)],
  );
}

/** Returns the change of a subscription that is neither made nor given up. */
export function findOpenChange(db: Db, subscriptionId: string): Promise<PlanChange | undefined> {
  return one<PlanChange>(
    db,
    "plan_change_open",
    `select ${CHANGE} from plan_changes where subscription_id = $1 and step in ('asked', 'uncertain')`,
    [subscriptionId],
  );
}

/**
 * Moves a change to a step, unless it is at its end. Returns 0 then. At its end the audit record says who requested it, and
 * from where; the change no longer does.
 */
export function movePlanChange(db: Db, id: string, step: PlanChangeStep): Promise<number> {
  return execute(
    db,
    "plan_change_move",
    `update plan_changes set step = $2, requested_by = case when $2 = 'uncertain' then requested_by end
     where id = $1 and step in ('asked', 'uncertain')`,
    [id, step],
  );
}

/** Returns the number of changes deleted that came to their end more than so many days ago; at most `limit`. */
export function deletePlanChanges(db: Db, days: number, limit: number): Promise<number> {
  return execute(
    db,
    "plan_changes_delete",
    `delete from plan_changes where id in (select id from plan_changes
       where step in ('done', 'refused') and asked_at < now() - make_interval(days => $1) limit $2)`,
    [days, limit],
  );
}

/** Deletes the changes of an account that came to their end; the worker gives up another one. */
export function deletePlanChangesOf(db: Db, accountId: string): Promise<number> {
  const text = "delete from plan_changes where account_id = $1 and step in ('done', 'refused')";
  return execute(db, "plan_changes_of_delete", text, [accountId]);
}

/**
 * Takes changes that are not at their end, the longest waiting first; each is tried again after a pause, longer each time,
 * and by nobody else meanwhile.
 */
export function takePlanChanges(db: Db, limit: number): Promise<PlanChange[]> {
  return many<PlanChange>(
    db,
    "plan_changes_take",
    `with due as (
       select id from plan_changes where step in ('asked', 'uncertain') and next_at <= now()
       order by next_at limit $1 for update skip locked)
     update plan_changes c set attempts = attempts + 1,
       next_at = now() + least(interval '10 s' * power(2, least(attempts, 6)), interval '10 min')
     from due where c.id = due.id returning c.${CHANGE}`,
    [limit],
  );
}
