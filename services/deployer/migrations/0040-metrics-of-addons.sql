-- What an addon stores, and how many clients are connected to it. A database in a shared server has no replicas and restarts.
alter table service_metrics
  add column storage_used bigint,
  add column connections integer,
  alter column replicas drop not null,
  alter column restarts drop not null;
