-- Until when a backup is kept whose addon is deleted, and the names of that: its rows are gone by then. A process of the
-- version before removes such a backup with its addon, if that is what removes it.
alter table backups add column kept_until timestamptz, add column service_name text, add column environment_name text,
  add column project_name text;
create index backups_kept on backups (account_id, id) where kept_until is not null;
