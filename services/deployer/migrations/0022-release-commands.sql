-- What runs once before a deployment is applied; null where nothing does, as for a rollback.
alter table deployments add column release_command text;
alter table deployments add column release_started_at timestamptz;
alter table deployments add column release_finished_at timestamptz;
-- Whether the runtime may still hold something of it.
alter table deployments add column release_left boolean not null default false;
create index deployments_release_left on deployments (service_id) where release_left;
