-- Backups of addons. A row outlives its service until its object is removed from the store.
create table backups (
  id text primary key,
  account_id text not null,
  service_id text not null,
  type text not null,
  trigger text not null check (trigger in ('manual', 'nightly')),
  -- Of a nightly one: an addon has one of each night.
  night date,
  status text not null default 'running' check (status in ('running', 'succeeded', 'failed')),
  size_bytes bigint,
  -- The key of its object: each attempt has its own, so that a slow process replaces nothing.
  object text,
  version text,
  failure text,
  requested_by text,
  started_at timestamptz not null default now(),
  finished_at timestamptz,
  -- Since when it is to be removed, with its object.
  deleting_at timestamptz,
  -- When a process looks at it next; null once nothing is to be done.
  due_at timestamptz default now(),
  -- How many have failed.
  attempts integer not null default 0,
  -- Grows with each taking, so that what a slow process found does not overwrite what came later.
  turn bigint not null default 0
);
create unique index backups_night on backups (service_id, night) where night is not null;
create unique index backups_running on backups (service_id) where status = 'running';
create index backups_service on backups (service_id, id);
create index backups_due on backups (due_at) where due_at is not null;

-- The last restore of each addon.
create table restores (
  service_id text primary key references services (id) on delete cascade,
  backup_id text not null,
  status text not null default 'running' check (status in ('running', 'succeeded', 'failed')),
  failure text,
  started_at timestamptz not null default now(),
  finished_at timestamptz,
  due_at timestamptz default now(),
  attempts integer not null default 0,
  turn bigint not null default 0
);
create index restores_due on restores (due_at) where due_at is not null;
