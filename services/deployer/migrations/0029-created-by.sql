-- Who made a deployment: kind, id and tokenId, as in the audit log. Null for deployments of earlier versions.
alter table deployments add column created_by jsonb;
