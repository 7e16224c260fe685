-- What billing knows of an account; one without a row has the installation's default plan.
create table accounts (
  id text primary key,
  -- null: the default of the installation.
  tier text check (tier in ('free', 'pro', 'team', 'enterprise')),
  -- Grows with each TierChanged.
  tier_revision bigint not null default 0,
  -- Billed outside of Berth, by an agreement with the operator.
  direct_agreement boolean not null default false
);

create table customers (
  account_id text primary key,
  -- Of the payment provider.
  customer_id text not null unique
);

-- Subscriptions and invoices as the payment provider last reported them.
create table subscriptions (
  id text primary key,
  account_id text not null,
  status text not null,
  tier text not null,
  cadence text not null check (cadence in ('monthly', 'annual')),
  price_version text not null,
  created_at timestamptz not null,
  current_period_end timestamptz not null,
  -- The current period of the compute item, once it is attached.
  compute_start timestamptz,
  compute_end timestamptz,
  cancel_at_period_end boolean not null,
  -- As the API shows them.
  coupon jsonb,
  items jsonb not null,
  payment_method jsonb
);
create index subscriptions_account on subscriptions (account_id, created_at desc);

create table invoices (
  id text primary key,
  account_id text not null,
  subscription_id text,
  kind text not null check (kind in ('subscription', 'compute', 'proration', 'manual')),
  status text not null check (status in ('open', 'paid', 'void', 'uncollectible')),
  period_start timestamptz not null,
  period_end timestamptz not null,
  total_cents bigint not null,
  pdf_url text,
  hosted_url text,
  created_at timestamptz not null,
  -- When a payment that failed is tried again.
  next_attempt timestamptz,
  -- Of a year's invoices, what a refund is computed of.
  paid jsonb
);
create index invoices_account on invoices (account_id, created_at desc, id desc);
create index invoices_paid on invoices (subscription_id) where paid is not null;

-- Subscriptions that end at once: each step is recorded before the next begins.
create table cancellations (
  subscription_id text primary key,
  account_id text not null,
  kind text not null check (kind in ('annual', 'unpaid', 'duplicate')),
  step text not null check (step in ('asked', 'uncertain', 'ended', 'refunding', 'review', 'done', 'denied')),
  asked_at timestamptz not null default now(),
  -- When the payment provider ended it.
  ended_at timestamptz,
  -- Whether staff released a refund that was under review.
  released boolean not null default false,
  -- What was last reported of the refund.
  refund_status text check (refund_status in ('under_review', 'refunded')),
  attempts int not null default 0,
  next_at timestamptz not null
);
create index cancellations_due on cancellations (next_at) where step in ('asked', 'uncertain', 'ended', 'refunding');

-- What a cancellation gives back of each invoice, recorded before it is given.
create table refunds (
  subscription_id text not null references cancellations on delete cascade,
  invoice_id text not null,
  amount_cents bigint not null,
  -- The rest goes to the customer's balance.
  cash_cents bigint not null,
  -- Of the payment provider, once it is made.
  credit_note_id text,
  primary key (subscription_id, invoice_id)
);

-- The promo code that waits for an account's next subscription.
create table pending_coupons (
  account_id text primary key,
  promotion_code_id text not null,
  -- As the API shows it.
  coupon jsonb not null,
  saved_at timestamptz not null,
  -- The last plan that it could not be spent on, and why; owners were told.
  refused text
);

-- What the payment provider reported, for a month: each event counts once.
create table stripe_events (
  id text primary key,
  type text not null,
  created timestamptz not null,
  customer_id text,
  received_at timestamptz not null default now()
);
create index stripe_events_received on stripe_events (received_at);

-- The customers to read anew from the payment provider.
create table due_customers (
  customer_id text primary key,
  -- Another one with each mark: what was marked while a customer was read is read again.
  revision bigserial,
  since timestamptz not null default now(),
  attempts int not null default 0,
  -- When it is read, or tried again; while it is being read, until when nobody else takes it.
  next_at timestamptz not null default now()
);
create index due_customers_next on due_customers (next_at);

-- What is compared with the payment provider from time to time.
create table reconciliations (
  name text primary key check (name in ('events', 'customers')),
  -- Until when it is done. null: never.
  done_until timestamptz,
  next_at timestamptz not null default '-infinity'
);
insert into reconciliations (name) values ('events'), ('customers');

-- How often an answer of the payment provider made an idempotency key useless.
create table provider_attempts (
  name text primary key,
  attempt int not null
);

-- The accounts whose members changed, or who began to be billed: their subscriptions have to bill as many.
create table seat_checks (
  account_id text primary key,
  -- Another one with each change: what changes while members are counted is counted again.
  revision bigserial
);

-- Seats that are paid until the end of a period, also while fewer are billed from then on.
create table paid_seats (
  subscription_id text primary key,
  until timestamptz not null,
  quantity int not null
);
