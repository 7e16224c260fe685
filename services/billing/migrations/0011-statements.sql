-- What the plan's credit paid of a period, in cents. null: frozen by an earlier version, so it follows from the plan.
alter table period_statements add column credit_cents bigint;
-- The number on an invoice.
alter table invoices add column number text;
