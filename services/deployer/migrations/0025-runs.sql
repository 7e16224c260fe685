-- Commands that run once, beside a release.
create table runs (
  id text primary key,
  account_id text not null,
  service_id text not null references services (id) on delete cascade,
  -- Null for the service's own start command.
  command text,
  trigger text not null check (trigger in ('manual', 'schedule')),
  -- The time of the schedule: a service has one run of each.
  scheduled_for timestamptz,
  timeout_seconds integer not null,
  status text not null default 'queued'
    check (status in ('queued', 'running', 'succeeded', 'failed', 'canceled', 'timed_out', 'lost')),
  exit_code integer,
  message text,
  version integer not null,
  requested_by text,
  created_at timestamptz not null default now(),
  started_at timestamptz,
  finished_at timestamptz,
  -- When a process looks at it next; null once it has ended and the runtime holds nothing of it.
  due_at timestamptz default now(),
  -- Grows with each taking and each request, so that what a slow process found does not overwrite what came later.
  turn bigint not null default 0
);
create unique index runs_scheduled on runs (service_id, scheduled_for) where scheduled_for is not null;
create index runs_service on runs (service_id, id);
create index runs_active on runs (account_id, service_id) where status in ('queued', 'running');
create index runs_due on runs (due_at) where due_at is not null;

create table run_logs (
  run_id text not null references runs (id) on delete cascade,
  -- The number of its first line.
  seq integer not null,
  text text not null,
  position bigint not null generated always as identity,
  primary key (run_id, seq)
);
create index run_logs_position on run_logs (run_id, position);

-- A run's id stands for its state and its log, among what followers listen to.
create function run_changed() returns trigger language plpgsql as $$
begin
  perform pg_notify('deployer-follow:' || tg_table_schema, new.id);
  return null;
end $$;
create trigger run_changed after update on runs for each row
  when (old.status is distinct from new.status) execute function run_changed();

create function run_log_grew() returns trigger language plpgsql as $$
begin
  perform pg_notify('deployer-follow:' || tg_table_schema, new.run_id);
  return null;
end $$;
create trigger run_log_grew after insert on run_logs for each row execute function run_log_grew();
