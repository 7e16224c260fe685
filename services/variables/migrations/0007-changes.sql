-- What changed with the last revisions of a scope, for those who follow a resolved set: the names of variables that were
-- written or removed, and the addons of an environment that published keys. A revision without a row is one that a
-- replica of the version before made: what changed with it is unknown.
create table changes (
  scope_id text not null,
  revision bigint not null,
  names text[] not null default '{}',
  addons text[] not null default '{}',
  primary key (scope_id, revision)
);

-- Followers listen on one channel for the ids of scopes, whatever process changes them.
create function scope_changed() returns trigger language plpgsql as $$
begin
  perform pg_notify('variables-follow:' || tg_table_schema, new.id);
  return null;
end $$;
create trigger scope_changed after update on scopes for each row
  when ((old.revision, old.deleted_at, old.config_env_at) is distinct from (new.revision, new.deleted_at, new.config_env_at))
  execute function scope_changed();
