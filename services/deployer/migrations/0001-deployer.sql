-- The tree. A row marked deleting_at is gone for users (a service shows as `deleting`); the reconciler
-- removes what belongs to it, then the row. Names stay taken until then.
create table projects (
  id text primary key,
  account_id text not null,
  name text not null,
  created_at timestamptz not null default now(),
  deleting_at timestamptz,
  constraint projects_name unique (account_id, name)
);
create index projects_page on projects (account_id, id);

create table environments (
  id text primary key,
  account_id text not null,
  project_id text not null references projects (id),
  name text not null,
  created_at timestamptz not null default now(),
  deleting_at timestamptz,
  constraint environments_name unique (project_id, name)
);
create index environments_page on environments (project_id, id);

create table services (
  id text primary key,
  account_id text not null,
  project_id text not null references projects (id),
  environment_id text not null references environments (id),
  name text not null,
  type text not null check (type in ('web', 'worker', 'postgres', 'redis')),
  source jsonb not null,
  config jsonb not null,
  staged boolean not null,
  -- Archive accepted while staged; deployed when the environment is applied.
  staged_archive text,
  created_at timestamptz not null default now(),
  deleting_at timestamptz,
  next_version integer not null default 1,

  -- The applied release. variables_revision is the last one given out, fingerprint the set it stands for;
  -- applied_revision is the one that the runtime took.
  live_version integer,
  variables_revision integer not null default 0,
  fingerprint text,
  applied_revision integer,
  -- Variables differ from the applied ones, and config.autoApply is false.
  pending_variables boolean not null default false,
  -- Variables may have changed: last and first time since they were compared.
  dirty_at timestamptz,
  dirty_since timestamptz,

  -- What the runtime was last seen to do.
  runtime_state text,
  runtime_reason text,
  runtime_message text,
  serving_version integer,
  url text,

  addon_state text check (addon_state in ('provisioning', 'ready', 'failed')),
  addon_message text,
  addon_revision bigint not null default 0,
  -- Sealed password.
  addon_secret bytea,

  constraint services_name unique (environment_id, name)
);
create index services_page on services (environment_id, id);
create index services_project on services (project_id);
create index services_unsettled on services (id)
  where deleting_at is not null or addon_state = 'provisioning' or dirty_at is not null;

create table deployments (
  id text primary key,
  service_id text not null references services (id),
  version integer not null,
  status text not null check (status in ('queued', 'building', 'built', 'applied', 'failed', 'superseded')),
  -- Configuration and source of the service when it was accepted.
  config jsonb not null,
  source jsonb not null,
  image text,
  -- What the runtime runs: known at once for an image, after the build for source.
  artifact text,
  build_id text,
  archive_ref text,
  branch text,
  "commit" text,
  build_stage text,
  errors jsonb not null default '[]',
  warnings jsonb not null default '[]',
  created_at timestamptz not null default now(),
  build_started_at timestamptz,
  built_at timestamptz,
  apply_started_at timestamptz,
  applied_at timestamptz,
  healthy_at timestamptz,
  finished_at timestamptz,
  -- A build began and ended without a release: something of it may be left in the builder.
  leftover boolean not null default false,
  constraint deployments_version unique (service_id, version)
);
-- At most one deployment of a service is under way: a newer one supersedes.
create unique index deployments_active on deployments (service_id)
  where status in ('queued', 'building', 'built');
create index deployments_leftover on deployments (service_id) where leftover;

create table build_logs (
  deployment_id text not null references deployments (id) on delete cascade,
  seq integer not null,
  text text not null,
  primary key (deployment_id, seq)
);

-- When the reconciler looks at a service again (null: when something happens), and who works on it.
create table work (
  service_id text primary key references services (id) on delete cascade,
  next_at timestamptz,
  lease_owner integer,
  lease_until timestamptz
);
create index work_next on work (next_at) where next_at is not null;
create index work_lease on work (lease_until) where lease_owner is not null;
