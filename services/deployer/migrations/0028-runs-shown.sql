-- As 0018, of the runs of a service that are under way.
create function run_shown() returns trigger language plpgsql set search_path from current as $$
declare
  environment text;
begin
  insert into environment_changes (environment_id, service_id)
  select environment_id, id from services where id = new.service_id
  returning environment_id into environment;
  perform pg_notify('deployer-follow:' || tg_table_schema, environment);
  return null;
end $$;
create trigger run_shown after insert on runs for each row execute function run_shown();
create trigger run_shown_otherwise after update on runs for each row
  when (old.status is distinct from new.status) execute function run_shown();
