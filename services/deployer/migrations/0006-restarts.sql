-- How often users asked to roll the live release.
alter table services add column rolls integer not null default 0;
-- Addons that a deployment waits for before it is applied, and until when.
alter table deployments add column awaits text[];
alter table deployments add column awaits_until timestamptz;
