-- The lines of an invoice with tax that a refund gives back. The version before this gives back an amount instead.
alter table refunds add column lines jsonb;
alter table refunds add column tax_cents bigint not null default 0;
-- The tax in an invoice's total, and in what it asks for compute.
alter table invoices add column tax_cents bigint not null default 0;
alter table metered_periods add column tax_cents bigint;
