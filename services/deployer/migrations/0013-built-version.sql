-- The version whose build a deployment without one of its own runs. Unknown of those that were accepted before.
alter table deployments add column built_version integer;
