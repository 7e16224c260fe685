-- Accounts that no plan pays for, and what follows: a grace period, then services beyond the allowance are stopped.
create table suspensions (
  account_id text primary key,
  -- Whether the account runs, or may run, more than the allowance, and has no plan that pays for it.
  needs_plan boolean not null default false,
  grace_from timestamptz,
  grace_until timestamptz,
  -- How many stages of the grace period were announced.
  stages integer not null default 0,
  -- The end of the period whose spend limit is reached.
  limit_until timestamptz,
  reason text check (reason in ('free_plan', 'spend_limit')),
  revision bigint not null default 0,
  changed_at timestamptz,
  announced_at timestamptz,
  check_at timestamptz not null default '-infinity'
);
create index suspensions_check on suspensions (check_at);

-- A trigger, so that processes of the version before record the end of a plan as well.
create function tier_changed() returns trigger language plpgsql set search_path from current as $$
begin
  insert into suspensions (account_id, needs_plan) values (new.id, new.tier = 'free')
  on conflict (account_id) do update set needs_plan = excluded.needs_plan, check_at = '-infinity';
  return null;
end $$;
create trigger account_tier_set after insert on accounts for each row
  when (new.tier is not null) execute function tier_changed();
create trigger account_tier_changed after update of tier on accounts for each row
  when (old.tier is distinct from new.tier and new.tier is not null) execute function tier_changed();

-- A plan that ended before has the same grace period from now on.
insert into suspensions (account_id, needs_plan) select id, true from accounts where tier = 'free';

-- What owners want to spend on compute in a period at most, and the shares of it that they were notified of.
create table spend_limits (
  account_id text primary key,
  limit_cents bigint not null check (limit_cents > 0)
);
create table spend_limit_alerts (
  account_id text not null,
  period_start timestamptz not null,
  limit_cents bigint not null,
  percent integer not null,
  at timestamptz not null,
  primary key (account_id, period_start, limit_cents, percent)
);
