-- What is known of accounts: that they are provisioned, and the plan that billing told of.
create table accounts (
  id text primary key,
  tier text not null default 'free',
  provisioned_at timestamptz
);

-- Names of the applied variables with a mark of each value, sealed: what a dry run compares with.
alter table services add column applied_variables bytea;

-- Releases whose artifact is still there.
create index deployments_kept on deployments (service_id, version)
  where status = 'applied' and artifact is not null and not leftover;
create index deployments_were_live on deployments (service_id, version) where healthy_at is not null;
