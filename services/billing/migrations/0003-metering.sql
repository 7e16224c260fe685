-- What is reported to the payment provider of the periods of compute items (docs/billing.md#closing-a-period).
create table metered_periods (
  subscription_id text not null,
  started_at timestamptz not null,
  ended_at timestamptz not null,
  account_id text not null,
  customer_id text not null,
  tier text not null,
  -- When it is to be reported on next. infinity: it is closed.
  next_at timestamptz not null default '-infinity',
  reported_cents bigint,
  -- What it came to as it was frozen. null: it is not closed.
  due_cents bigint,
  -- The line of the invoice.
  invoice_id text,
  invoiced_cents bigint,
  compared boolean not null default false,
  primary key (subscription_id, started_at)
);
create index metered_periods_next on metered_periods (next_at);
create index metered_periods_invoiced on metered_periods (invoice_id) where not compared;
alter table adjustments drop constraint adjustments_reason_check;
alter table adjustments add constraint adjustments_reason_check check (reason in ('late_usage', 'carried', 'invoiced'));
