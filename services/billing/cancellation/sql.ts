import type { Timestamp } from "@bufbuild/protobuf/wkt";
import { type Db, execute, many, one } from "../../kit/postgres/db.ts";

/**
 * Why a subscription ends at once: an annual one whose unused part is refunded, one that is not paid, or a second one,
 * which is refunded in full.
 */
export type CancellationKind = "annual" | "unpaid" | "duplicate";

/** How far a cancellation is (docs/billing.md#canceling). */
export type Step = "asked" | "uncertain" | "ended" | "refunding" | "review" | "disputed" | "done" | "denied";

export type Cancellation = {
  subscriptionId: string;
  accountId: string;
  kind: CancellationKind;
  step: Step;
  askedAt: Timestamp;
  /** When the provider ended it. */
  endedAt: Timestamp | null;
  /** Whether staff released the refund. */
  released: boolean;
};

const CANCELLATION = `subscription_id as "subscriptionId", account_id as "accountId", kind, step, asked_at as "askedAt",
  ended_at as "endedAt", released`;

/** How long the worker leaves a new cancellation to the request that made it. */
const FIRST_PAUSE = "interval '10 s'";

export type CancellationRequest = {
  subscriptionId: string;
  accountId: string;
  kind: CancellationKind;
  /** Whether no request waits for it: the worker takes it at once. */
  atOnce?: boolean;
};

/**
 * Records that a subscription is to end, before the provider is asked to end it. Returns undefined when it is being
 * canceled; a cancellation whose first attempt failed begins again.
 */
export function requestCancellation(db: Db, request: CancellationRequest) {
  const { subscriptionId, accountId, kind, atOnce = false } = request;
  return one<Cancellation>(
    db,
    "cancellation_ask",
    `insert into cancellations as c (subscription_id, account_id, kind, step, next_at)
     values ($1, $2, $3, 'asked', now() + case when $4 then interval '0' else ${FIRST_PAUSE} end)
     on conflict (subscription_id) do update set kind = excluded.kind, step = 'asked', asked_at = now(), attempts = 0,
       next_at = excluded.next_at
       where c.step = 'uncertain'
     returning ${CANCELLATION}`,
    [subscriptionId, accountId, kind, atOnce],
  );
}

export function findCancellation(db: Db, subscriptionId: string): Promise<Cancellation | undefined> {
  return one<Cancellation>(
    db,
    "cancellation_find",
    `select ${CANCELLATION} from cancellations where subscription_id = $1`,
    [subscriptionId],
  );
}

/** Moves a cancellation on, unless it is at another step by now. */
export function moveCancellation(db: Db, subscriptionId: string, from: Step, to: Step): Promise<number> {
  return execute(
    db,
    "cancellation_move",
    "update cancellations set step = $3 where subscription_id = $1 and step = $2",
    [subscriptionId, from, to],
  );
}

/** Records that the provider has ended the subscription. */
export function setEnded(db: Db, subscriptionId: string, at: Date): Promise<Cancellation | undefined> {
  return one<Cancellation>(
    db,
    "cancellation_ended",
    `update cancellations set step = 'ended', ended_at = $2
     where subscription_id = $1 and step in ('asked', 'uncertain') returning ${CANCELLATION}`,
    [subscriptionId, at],
  );
}

/** Forgets a cancellation that did not happen. */
export function deleteCancellation(db: Db, subscriptionId: string): Promise<number> {
  return execute(
    db,
    "cancellation_delete",
    "delete from cancellations where subscription_id = $1 and step = 'uncertain'",
    [subscriptionId],
  );
}

/**
 * Takes cancellations that are not at their end, the longest waiting first; each is tried again after a pause, longer
 * each time, and by nobody else meanwhile.
 */
export function takeCancellations(db: Db, limit: number): Promise<Cancellation[]> {
  return many<Cancellation>(
    db,
    "cancellations_take",
    `with due as (
       select subscription_id as id from cancellations
       where step in ('asked', 'uncertain', 'ended', 'refunding') and next_at <= now()
       order by next_at limit $1 for update skip locked)
     update cancellations c set attempts = attempts + 1,
       next_at = now() + least(interval '30 s' * power(2, least(attempts, 10)), interval '1 h')
     from due where c.subscription_id = due.id returning ${CANCELLATION}`,
    [limit],
  );
}

/** Has a cancellation resumed in a few seconds. */
export function retryCancellationSoon(db: Db, subscriptionId: string): Promise<number> {
  return execute(
    db,
    "cancellation_hasten",
    "update cancellations set next_at = now() + interval '5 s', attempts = 0 where subscription_id = $1",
    [subscriptionId],
  );
}

/** Records what is reported of a cancellation's refund. Returns 0 when that was reported. */
export function setRefundStatus(db: Db, subscriptionId: string, status: string): Promise<number> {
  return execute(
    db,
    "cancellation_refund_status",
    `update cancellations set refund_status = $2
     where subscription_id = $1 and refund_status is distinct from $2`,
    [subscriptionId, status],
  );
}

/** A refund that waits for staff. */
export type Review = {
  subscriptionId: string;
  accountId: string;
  endedAt: string;
  cashCents: number;
  creditCents: number;
};

/** Lists the refunds that wait for staff, the longest waiting first. */
export function listReviews(db: Db): Promise<Review[]> {
  return many<Review>(
    db,
    "reviews_list",
    `select subscription_id as "subscriptionId", account_id as "accountId",
       to_char(ended_at at time zone 'UTC', 'YYYY-MM-DD HH24:MI') as "endedAt",
       sum(cash_cents)::bigint as "cashCents", sum(amount_cents - cash_cents)::bigint as "creditCents"
     from cancellations join refunds using (subscription_id)
     where step = 'review' group by subscription_id order by ended_at, subscription_id`,
  );
}

/**
 * Lets a refund that waits for staff be made, from what is left to refund by now, or denies it. Returns its cancellation;
 * undefined when none waits.
 */
export function decideReview(db: Db, subscriptionId: string, to: "ended" | "denied") {
  return one<Cancellation>(
    db,
    "review_settle",
    `update cancellations set step = $2, released = $2 = 'ended', attempts = 0, next_at = now()
     where subscription_id = $1 and step = 'review' returning ${CANCELLATION}`,
    [subscriptionId, to],
  );
}

/** Has a refund that waited for a bank planned again: what is left to refund depends on how the bank decided. */
export function releaseDisputed(db: Db, subscriptionId: string): Promise<number> {
  return execute(
    db,
    "cancellation_release_disputed",
    `update cancellations set step = 'ended', attempts = 0, next_at = now()
     where subscription_id = $1 and step = 'disputed'`,
    [subscriptionId],
  );
}
