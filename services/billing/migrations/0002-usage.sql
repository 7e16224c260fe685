-- The usage ledger (docs/billing.md#usage). Segments count whole seconds. Rates and amounts are in nano-USD, billionths
-- of a dollar.
create table usage_accounts (
  account_id text primary key,
  -- What ran before this is in statements, and changes by adjustments alone.
  frozen_until timestamptz not null,
  -- When the period that follows is to be frozen, and when spend is to be compared with the budget next.
  freeze_at timestamptz not null,
  alert_at timestamptz not null
);
create index usage_accounts_freeze on usage_accounts (freeze_at);
create index usage_accounts_alert on usage_accounts (alert_at);

create table usage_services (
  service_id text primary key,
  -- Services as numbers: an exclusion constraint compares ranges of numbers without an extension, which the role of a
  -- service may not install.
  number bigint not null unique generated always as identity,
  account_id text not null,
  project_id text not null,
  type text not null,
  -- Kept after the service is deleted. null: not known yet.
  name text
);

create table usage_projects (
  project_id text primary key,
  name text not null
);

-- What the deployer reported, append-only. Heartbeats that only confirm are not kept: they move last_seen_at of segments.
create table usage_events (
  interval_id text not null,
  seq int not null,
  kind text not null check (kind in ('start', 'resize', 'stop', 'heartbeat')),
  service_id text not null,
  size text not null,
  replicas int not null,
  at timestamptz not null,
  received_at timestamptz not null default now(),
  primary key (interval_id, seq)
);

-- Derived from the events: when a service ran unchanged.
create table usage_segments (
  interval_id text not null,
  -- Of the event that it begins with.
  seq int not null,
  account_id text not null,
  service_id text not null,
  service_number bigint not null references usage_services (number),
  size text not null,
  replicas int not null check (replicas > 0),
  -- A second of one replica, by the price list in force when the segment was first seen.
  rate bigint not null,
  price_version text not null,
  started_at timestamptz not null check (date_trunc('second', started_at) = started_at),
  ended_at timestamptz check (ended_at > started_at and date_trunc('second', ended_at) = ended_at),
  -- When the deployer last said that the interval runs; without a later sign it ended then.
  last_seen_at timestamptz not null,
  primary key (interval_id, seq),
  -- No second of a service is billed twice.
  constraint usage_segments_once exclude using gist
    (int8range(service_number, service_number, '[]') with =, tstzrange(started_at, ended_at) with &&)
    deferrable initially immediate
);
create index usage_segments_account on usage_segments (account_id, (coalesce(ended_at, 'infinity')));
create index usage_segments_newest on usage_segments (account_id, started_at desc, interval_id desc, seq desc);

-- The periods of compute items of subscriptions. Outside of them an account has calendar months, which are not billed.
create table compute_periods (
  account_id text not null,
  started_at timestamptz not null,
  ended_at timestamptz not null check (ended_at > started_at),
  tier text not null,
  primary key (account_id, started_at)
);

-- What a period came to, as it was frozen. Never changed.
create table period_statements (
  account_id text not null,
  started_at timestamptz not null,
  ended_at timestamptz not null,
  tier text not null,
  -- Whether it is a period of a compute item.
  billed boolean not null,
  -- SHA-256 of the segments that it was rated from.
  inputs bytea not null,
  accrued bigint not null,
  allowance bigint not null,
  -- Corrections of earlier periods.
  adjustment bigint not null,
  -- What is owed before the plan's credit, in whole cents; the lines' cents add up to it.
  due_cents bigint not null,
  lines jsonb not null,
  frozen_at timestamptz not null,
  primary key (account_id, started_at, ended_at, billed)
);

-- Corrections of frozen periods; they count in the period that contains `at`.
create table adjustments (
  id bigint primary key generated always as identity,
  account_id text not null,
  at timestamptz not null,
  -- The period that is corrected.
  period_start timestamptz not null,
  -- Positive: owed. Negative: returned.
  amount bigint not null,
  reason text not null check (reason in ('late_usage', 'carried')),
  -- Found too late to be asked for.
  written_off boolean not null default false
);
create index adjustments_account on adjustments (account_id, at);

-- The shares of the budget that were reported, each once for a period.
create table usage_alerts (
  account_id text not null,
  period_start timestamptz not null,
  percent int not null,
  at timestamptz not null,
  primary key (account_id, period_start, percent)
);
