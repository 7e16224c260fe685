-- The Cloud Native Buildpacks that a deployment's source was built by, as an array of texts; null where none were.
alter table deployments add column buildpacks jsonb;
