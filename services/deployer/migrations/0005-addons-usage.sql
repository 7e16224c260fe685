-- The port of an addon that runs on this machine, kept over restarts.
alter table services add column addon_port integer;
-- Sealed password that a rotation brings in: pending until the server knows it and the keys are published.
alter table services add column addon_next_secret bytea;
alter table services add column addon_rotated_at timestamptz;
-- Time of the last change of what runs that usage has taken.
alter table services add column usage_at timestamptz;

-- What is running now, one row for a service, as billing rates it. The row goes when it stops; events keep
-- the history. seq counts the interval's events, so that interval and seq name one for good.
create table usage_intervals (
  id text primary key,
  service_id text not null,
  account_id text not null,
  project_id text not null,
  environment_id text not null,
  type text not null,
  size text not null,
  replicas integer not null check (replicas > 0),
  started_at timestamptz not null,
  -- Last time it was seen to run, and last heartbeat.
  seen_at timestamptz not null,
  heartbeat_at timestamptz not null,
  seq integer not null default 0,
  constraint usage_intervals_service unique (service_id)
);
create index usage_intervals_heartbeat on usage_intervals (heartbeat_at);
