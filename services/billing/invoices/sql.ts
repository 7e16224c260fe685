import type { Timestamp } from "@bufbuild/protobuf/wkt";
import { type Db, execute, many, one } from "../../kit/postgres/db.ts";
import type { MirroredInvoice } from "./mirror-invoice.ts";

/** How many invoices a subscription shows. */
export const INVOICES = 24;

export type InvoiceRow = {
  id: string;
  kind: string;
  status: string;
  periodStart: Timestamp;
  periodEnd: Timestamp;
  totalCents: number;
  taxCents: number;
  pdfUrl: string | null;
  hostedUrl: string | null;
  number: string | null;
  /** Its sort key. */
  position: string;
};

/** Lists an account's invoices, newest first: those behind a position. */
export function listInvoices(
  db: Db,
  accountId: string,
  { before, limit }: { before?: string | undefined; limit: number } = { limit: INVOICES },
): Promise<InvoiceRow[]> {
  const [created, id] = before?.split(" ") ?? [];
  return many<InvoiceRow>(
    db,
    "invoices_list",
    `select id, kind, status, period_start as "periodStart", period_end as "periodEnd", total_cents as "totalCents", tax_cents as "taxCents",
       pdf_url as "pdfUrl", hosted_url as "hostedUrl", number, extract(epoch from created_at)::bigint || ' ' || id as position
     from invoices
     where account_id = $1 and ($2::bigint is null or (created_at, id) < (to_timestamp($2), $3))
     order by created_at desc, id desc limit $4`,
    [accountId, created ?? null, id ?? null, limit],
  );
}

/** Whether an account paid for anything yet. */
export async function hasPaidInvoice(db: Db, accountId: string): Promise<boolean> {
  const text = "select 1 from invoices where account_id = $1 and status = 'paid' and total_cents > 0 limit 1";
  return (await one(db, "invoice_paid", text, [accountId])) !== undefined;
}

/** What is recorded of an invoice, as far as events depend on it. */
export type RecordedInvoice = Pick<MirroredInvoice, "id" | "status" | "attempts" | "actionRequired">;

/** Returns what is recorded of invoices, by id, and locks it. */
export async function findRecordedInvoices(db: Db, ids: string[]): Promise<Map<string, RecordedInvoice>> {
  const rows = await many<RecordedInvoice>(
    db,
    "invoices_recorded",
    `select id, status, attempts, action_required as "actionRequired" from invoices where id = any($1)
     order by id for update`,
    [ids],
  );
  return new Map(rows.map((row) => [row.id, row]));
}

/** Records an invoice as the provider reports it. */
export function putInvoice(db: Db, accountId: string, row: MirroredInvoice): Promise<number> {
  return execute(
    db,
    "invoice_put",
    `insert into invoices (id, account_id, subscription_id, kind, status, period_start, period_end, total_cents,
       pdf_url, hosted_url, created_at, next_attempt, attempts, action_required, number, tax_cents, pays_plan)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)
     on conflict (id) do update set kind = $4, status = $5, period_start = $6, period_end = $7, total_cents = $8,
       pdf_url = $9, hosted_url = $10, next_attempt = $12, attempts = $13, action_required = $14,
       number = $15, tax_cents = $16, pays_plan = $17`,
    [
      row.id,
      accountId,
      row.subscriptionId ?? null,
      row.kind,
      row.status,
      row.periodStart,
      row.periodEnd,
      row.totalCents,
      row.pdfUrl ?? null,
      row.hostedUrl ?? null,
      row.created,
      row.nextAttempt ?? null,
      row.attempts,
      row.actionRequired,
      row.number ?? null,
      row.taxCents,
      row.paysPlan,
    ],
  );
}

/** Returns the account and the subscription of an invoice. */
export function findInvoiceOwner(db: Db, invoiceId: string) {
  return one<{ accountId: string; subscriptionId: string | null }>(
    db,
    "invoice_owner",
    `select account_id as "accountId", subscription_id as "subscriptionId" from invoices where id = $1`,
    [invoiceId],
  );
}
