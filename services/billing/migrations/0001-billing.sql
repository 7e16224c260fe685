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
  next_attempt timestamptz
);
create index invoices_account on invoices (account_id, created_at desc, id desc);

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
