alter table backups drop constraint backups_trigger_check;
alter table backups add constraint backups_trigger_check check (trigger in ('manual', 'nightly', 'uploaded')) not valid;

-- Uploads that were begun, and of which no backup was made yet: it has the id of its upload. A row outlives its service,
-- so that what was uploaded is found.
create table backup_uploads (
  id text primary key,
  account_id text not null,
  service_id text not null,
  created_at timestamptz not null default now()
);
create index backup_uploads_service on backup_uploads (service_id);
create index backup_uploads_created on backup_uploads (created_at);
