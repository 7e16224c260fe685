-- Of a service: since when it may have a config.env, which is the deployer's; null when it has none. What a replica of the
-- version before inserts may have one, and so may what was there before.
alter table scopes add column config_env_at timestamptz default now();

-- An announcement (doubts) stands for a change of config.env as well: once it is withdrawn, by a replica of whatever
-- version, the mark stays. After the row, so that a statement which deletes the scope and its doubt may write both.
create function scope_may_have_config_env() returns trigger language plpgsql set search_path from current as $$
begin
  update scopes set config_env_at = now() where id = old.scope_id and kind = 'service' and deleted_at is null;
  return null;
end $$;
create trigger scope_may_have_config_env after delete on doubts
  for each row execute function scope_may_have_config_env();
