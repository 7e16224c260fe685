-- What each service used in the last 24 hours, in a ring of 1440 minutes: a minute replaces that of the day before, so
-- nothing has to be pruned, and no index changes. Null is what was not measured.
create table service_metrics (
  service_id text not null references services (id) on delete cascade,
  -- The minute of the day (UTC).
  slot smallint not null,
  minute timestamptz not null,
  -- CPU time, and the time in which it was used.
  cpu_ms double precision,
  covered_ms double precision,
  memory bigint,
  replicas integer not null,
  restarts integer not null,
  network_in bigint,
  network_out bigint,
  -- Requests by the first digit of their status, 2 to 5, and by the bucket of their latency.
  statuses integer[],
  latencies integer[],
  primary key (service_id, slot)
) with (fillfactor = 80);

-- Up to where what only grows was counted, by where it was counted: each replica, and each process of the router.
create table metric_counters (
  service_id text primary key references services (id) on delete cascade,
  measured_at timestamptz not null,
  counters jsonb not null
) with (fillfactor = 70);
