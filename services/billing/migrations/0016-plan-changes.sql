-- Changes of plan, cadence or end that were requested, each until the payment provider has made it, or never will.
create table plan_changes (
  id text primary key,
  account_id text not null,
  subscription_id text not null,
  kind text not null,
  tier text not null,
  cadence text not null,
  seats integer not null,
  -- From when time is charged, by the provider's clock.
  charged_from timestamptz not null,
  -- Who requested it, for the audit record that is written once it is made.
  requested_by jsonb not null,
  step text not null default 'asked',
  asked_at timestamptz not null default now(),
  attempts integer not null default 0,
  next_at timestamptz not null
);
create unique index plan_changes_open on plan_changes (subscription_id) where step in ('asked', 'uncertain');
create index plan_changes_next on plan_changes (next_at) where step in ('asked', 'uncertain');
-- The plan and cadence from the next period on. null: they stay.
alter table subscriptions add column pending jsonb;
-- The plan whose seats are paid. null: written by an earlier version, which knew no changes of plan.
alter table paid_seats add column tier text;
