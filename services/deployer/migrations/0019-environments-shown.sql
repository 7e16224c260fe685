-- Followers of an environment hear of its deletion.
create function environment_ends() returns trigger language plpgsql as $$
begin
  perform pg_notify('deployer-follow:' || tg_table_schema, old.id);
  return null;
end $$;
create trigger environment_ends after update of deleting_at on environments for each row execute function environment_ends();
