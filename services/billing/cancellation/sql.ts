import type { Timestamp } from "@bufbuild/protobuf/wkt";
import { type Db, execute, many, one } from "../../kit/postgres/db.ts";
import type { Refund } from "./refund.ts";

/**
 * Why a subscription ends at once: an annual one whose unused part is refunded, one that is not paid, or a second one,
 * which is refunded in full.
 */
export type CancellationKind = "annual" | "unpaid" | "duplicate";

/** How far a cancellation is (docs/billing.md#canceling). */
export type Step = "asked" | "uncertain" | "ended" | "refunding" | "review" | "done" | "denied";

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

/** How long the worker leaves a cancellation that was just asked for to who asked. */
const FIRST_PAUSE = "interval '10 s'";

export type Ask = { subscriptionId: string; accountId: string; kind: CancellationKind };

/**
 * Records that a subscription is to end, before the provider is asked to end it. Returns undefined when it is being
 * canceled; a cancellation whose first try failed begins again.
 */
export function askCancellation(db: Db, { subscriptionId, accountId, kind }: Ask) {
  return one<Cancellation>(
    db,
    "cancellation_ask",
    `insert into cancellations as c (subscription_id, account_id, kind, step, next_at)
     values ($1, $2, $3, 'asked', now() + ${FIRST_PAUSE})
     on conflict (subscription_id) do update set kind = excluded.kind, step = 'asked', asked_at = now(), attempts = 0,
       next_at = excluded.next_at
       where c.step = 'uncertain'
     returning ${CANCELLATION}`,
    [subscriptionId, accountId, kind],
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

/** Lets a cancellation be carried on soon. */
export function hastenCancellation(db: Db, subscriptionId: string): Promise<number> {
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

export type RefundRow = Refund & { creditNoteId: string | null };

/** Lists the refunds of a cancellation. */
export function listRefunds(db: Db, subscriptionId: string): Promise<RefundRow[]> {
  return many<RefundRow>(
    db,
    "refunds_list",
    `select invoice_id as "invoiceId", amount_cents as "amountCents", cash_cents as "cashCents",
       credit_note_id as "creditNoteId"
     from refunds where subscription_id = $1 order by invoice_id`,
    [subscriptionId],
  );
}

/** Records what is to be refunded, in place of what was planned before and not made. */
export function planRefunds(db: Db, subscriptionId: string, refunds: Refund[]): Promise<number> {
  return execute(
    db,
    "refunds_plan",
    `with gone as (
       delete from refunds where subscription_id = $1 and credit_note_id is null and invoice_id <> all ($2))
     insert into refunds as r (subscription_id, invoice_id, amount_cents, cash_cents)
     select $1, * from unnest($2::text[], $3::bigint[], $4::bigint[])
     on conflict (subscription_id, invoice_id) do update
       set amount_cents = excluded.amount_cents, cash_cents = excluded.cash_cents where r.credit_note_id is null`,
    [
      subscriptionId,
      refunds.map(({ invoiceId }) => invoiceId),
      refunds.map(({ amountCents }) => amountCents),
      refunds.map(({ cashCents }) => cashCents),
    ],
  );
}

export function setRefundMade(db: Db, subscriptionId: string, invoiceId: string, creditNoteId: string) {
  return execute(
    db,
    "refund_made",
    "update refunds set credit_note_id = $3 where subscription_id = $1 and invoice_id = $2",
    [subscriptionId, invoiceId, creditNoteId],
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
export function settleReview(db: Db, subscriptionId: string, to: "ended" | "denied") {
  return one<Cancellation>(
    db,
    "review_settle",
    `update cancellations set step = $2, released = $2 = 'ended', attempts = 0, next_at = now()
     where subscription_id = $1 and step = 'review' returning ${CANCELLATION}`,
    [subscriptionId, to],
  );
}

/** Records that a refund failed. Returns 0 when that was recorded. */
export function addFailedRefund(db: Db, refundId: string): Promise<number> {
  const text = "insert into failed_refunds (id) values ($1) on conflict do nothing";
  return execute(db, "failed_refund_add", text, [refundId]);
}
