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
     where account_id = $1 and (created_at, id) < (coalesce(to_timestamp($2::bigint), 'infinity'), coalesce($3, ''))
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

/** Records invoices as the provider reports them; what is recorded so already is not written again. */
export function putInvoices(db: Db, accountId: string, rows: MirroredInvoice[]): Promise<number> {
  const column = <T>(of: (row: MirroredInvoice) => T) => rows.map(of);
  return execute(
    db,
    "invoices_put",
    `insert into invoices as i (account_id, id, subscription_id, kind, status, period_start, period_end, total_cents,
       pdf_url, hosted_url, created_at, next_attempt, attempts, action_required, number, tax_cents, pays_plan)
     select $1, * from unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::timestamptz[], $7::timestamptz[],
       $8::bigint[], $9::text[], $10::text[], $11::timestamptz[], $12::timestamptz[], $13::integer[], $14::boolean[],
       $15::text[], $16::bigint[], $17::boolean[])
     on conflict (id) do update set kind = excluded.kind, status = excluded.status,
       period_start = excluded.period_start, period_end = excluded.period_end, total_cents = excluded.total_cents,
       pdf_url = excluded.pdf_url, hosted_url = excluded.hosted_url, next_attempt = excluded.next_attempt,
       attempts = excluded.attempts, action_required = excluded.action_required, number = excluded.number,
       tax_cents = excluded.tax_cents, pays_plan = excluded.pays_plan
     where (i.kind, i.status, i.period_start, i.period_end, i.total_cents, i.pdf_url, i.hosted_url, i.next_attempt,
         i.attempts, i.action_required, i.number, i.tax_cents, i.pays_plan)
       is distinct from (excluded.kind, excluded.status, excluded.period_start, excluded.period_end,
         excluded.total_cents, excluded.pdf_url, excluded.hosted_url, excluded.next_attempt, excluded.attempts,
         excluded.action_required, excluded.number, excluded.tax_cents, excluded.pays_plan)`,
    [
      accountId,
      column((row) => row.id),
      column((row) => row.subscriptionId ?? null),
      column((row) => row.kind),
      column((row) => row.status),
      column((row) => row.periodStart),
      column((row) => row.periodEnd),
      column((row) => row.totalCents),
      column((row) => row.pdfUrl ?? null),
      column((row) => row.hostedUrl ?? null),
      column((row) => row.created),
      column((row) => row.nextAttempt ?? null),
      column((row) => row.attempts),
      column((row) => row.actionRequired),
      column((row) => row.number ?? null),
      column((row) => row.taxCents),
      column((row) => row.paysPlan),
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
