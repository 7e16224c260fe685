import { type Db, execute, one } from "../../kit/postgres/db.ts";
import type { DisputeOutcome } from "../stripe/disputes.ts";

/** A dispute as it is recorded. */
export type DisputeRow = {
  id: string;
  accountId: string;
  subscriptionId: string | null;
  invoiceId: string;
  paymentId: string;
  outcome: DisputeOutcome;
  /** Whether the operator has to answer it, until `respondBy`. */
  unanswered: boolean;
  respondBy: Date | null;
  amountCents: number;
  reason: string;
  createdAt: Date;
};

/** Records a dispute. Returns 0 when what is recorded of it says the same. */
export function putDispute(db: Db, row: DisputeRow): Promise<number> {
  return execute(
    db,
    "dispute_put",
    `insert into disputes as d (id, account_id, subscription_id, invoice_id, payment_id, outcome, unanswered, respond_by,
       amount_cents, reason, created_at)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
     on conflict (id) do update set outcome = $6, unanswered = $7, respond_by = $8, amount_cents = $9
       where (d.outcome, d.unanswered, d.respond_by, d.amount_cents) is distinct from ($6, $7, $8, $9)`,
    [
      row.id,
      row.accountId,
      row.subscriptionId,
      row.invoiceId,
      row.paymentId,
      row.outcome,
      row.unanswered,
      row.respondBy,
      row.amountCents,
      row.reason,
      row.createdAt,
    ],
  );
}

/** Returns what is recorded to have become of a dispute. */
export async function findOutcome(db: Db, id: string): Promise<DisputeOutcome | undefined> {
  const text = "select outcome from disputes where id = $1";
  return (await one<{ outcome: DisputeOutcome }>(db, "dispute_outcome", text, [id]))?.outcome;
}

/** Returns how many disputes and inquiries wait for an answer of the operator. */
export async function countUnanswered(db: Db): Promise<number> {
  const row = await one<{ count: number }>(
    db,
    "disputes_unanswered",
    "select count(*)::int as count from disputes where unanswered and outcome in ('inquiry', 'open')",
  );
  return row!.count;
}

/** What a dispute may end: the subscription of an invoice, and whether the invoice pays the plan for a time not over. */
export type Disputed = {
  number: string | null;
  status: string | null;
  cadence: "monthly" | "annual" | null;
  paysPlan: boolean;
};

/** Returns what is recorded of an invoice and its subscription at a time. */
export function findDisputed(db: Db, invoiceId: string, at: Date): Promise<Disputed | undefined> {
  return one<Disputed>(
    db,
    "disputed_invoice",
    `select i.number, s.status, s.cadence, coalesce(i.pays_plan, i.kind = 'subscription') and i.period_end > $2 as "paysPlan"
     from invoices i left join subscriptions s on s.id = i.subscription_id where i.id = $1`,
    [invoiceId, at],
  );
}

/** Marks the payments of disputes that are not decided as due: each webhook about them may be lost. */
export function markDisputed(db: Db): Promise<number> {
  return execute(
    db,
    "disputes_mark",
    `insert into due_payments (payment_id)
     select distinct payment_id from disputes where outcome in ('inquiry', 'open') order by payment_id
     on conflict do nothing`,
  );
}
