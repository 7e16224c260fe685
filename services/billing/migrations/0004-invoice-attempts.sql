-- How often the payment provider tried to collect an invoice, and whether that waits for its payer's confirmation.
alter table invoices add column attempts int not null default 0, add column action_required boolean not null default false;
