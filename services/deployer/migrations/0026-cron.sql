alter table services drop constraint services_type_check;
alter table services add constraint services_type_check
  check (type in ('web', 'worker', 'cron', 'postgres', 'redis')) not valid;

-- When the next run of a cron service is due. Its schedule is in its configuration.
create table schedules (
  service_id text primary key references services (id) on delete cascade,
  next_at timestamptz not null
);
create index schedules_next on schedules (next_at);
