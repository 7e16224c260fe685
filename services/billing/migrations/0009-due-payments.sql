-- The payment that an event is about, where it names no customer. The version before this has it as customer_id.
alter table stripe_events add column payment_id text;

-- The payments whose customers are to be read from the payment provider, as those of due_customers. After a rollback,
-- what is due here waits for the next upgrade.
create table due_payments (
  payment_id text primary key,
  -- Another one with each mark: what was marked while a payment was read is read again.
  revision bigserial,
  since timestamptz not null default now(),
  attempts int not null default 0,
  -- When it is read, or tried again.
  next_at timestamptz not null default now(),
  -- Until when nobody else reads one that is being read.
  leased_until timestamptz
);
create index due_payments_next on due_payments (next_at);
