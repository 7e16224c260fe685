-- What a staged service deploys when its environment is applied, besides an archive.
alter table services add column staged_image text;
-- Tells the bytes of an archive from others: those that were there when it was accepted are built.
alter table services add column staged_digest text;
alter table deployments add column archive_digest text;
