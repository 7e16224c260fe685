import { type Db, execute, many } from "../../kit/postgres/db.ts";
import type { Refund } from "./refund.ts";

export type RefundRow = Refund & { creditNoteId: string | null };

/** Lists the refunds of a cancellation. */
export function listRefunds(db: Db, subscriptionId: string): Promise<RefundRow[]> {
  return many<RefundRow>(
    db,
    "refunds_list",
    `select invoice_id as "invoiceId", amount_cents as "amountCents", cash_cents as "cashCents",
       credit_note_id as "creditNoteId", lines,
       tax_cents as "taxCents"
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
     insert into refunds as r (subscription_id, invoice_id, amount_cents, cash_cents, lines, tax_cents)
     select $1, * from unnest($2::text[], $3::bigint[], $4::bigint[], $5::jsonb[], $6::bigint[])
     on conflict (subscription_id, invoice_id) do update set amount_cents = excluded.amount_cents,
       cash_cents = excluded.cash_cents, lines = excluded.lines,
       tax_cents = excluded.tax_cents where r.credit_note_id is null`,
    [
      subscriptionId,
      refunds.map(({ invoiceId }) => invoiceId),
      refunds.map(({ amountCents }) => amountCents),
      refunds.map(({ cashCents }) => cashCents),
      refunds.map(({ lines }) => (lines ? JSON.stringify(lines) : null)),
      refunds.map(({ taxCents = 0 }) => taxCents),
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

/** Records that a refund failed. Returns 0 when that was recorded. */
export function addFailedRefund(db: Db, refundId: string): Promise<number> {
  const text = "insert into failed_refunds (id) values ($1) on conflict do nothing";
  return execute(db, "failed_refund_add", text, [refundId]);
}
