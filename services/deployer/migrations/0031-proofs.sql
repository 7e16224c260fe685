-- Proofs of backups: each night one is restored to the side, and thrown away. A row outlives its backup.
create table proofs (
  -- Whichever deployer begins it first, a night has one.
  night date primary key,
  backup_id text not null,
  service_id text not null,
  environment_id text not null,
  type text not null,
  status text not null default 'running' check (status in ('running', 'succeeded', 'failed')),
  -- How many rows or keys were read.
  counted bigint,
  failure text,
  started_at timestamptz not null default now(),
  finished_at timestamptz,
  -- As in backups.
  due_at timestamptz default now(),
  attempts integer not null default 0,
  turn bigint not null default 0
);
create index proofs_due on proofs (due_at) where due_at is not null;
create index proofs_backup on proofs (backup_id, night);
create index proofs_service on proofs (service_id, night);
