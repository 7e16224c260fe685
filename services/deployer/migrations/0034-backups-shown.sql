-- As 0028, of the backups of an addon. Its service may be gone.
create function backup_shown() returns trigger language plpgsql set search_path from current as $$
declare
  environment text;
begin
  insert into environment_changes (environment_id, service_id)
  select environment_id, id from services where id = new.service_id
  returning environment_id into environment;
  if environment is not null then
    perform pg_notify('deployer-follow:' || tg_table_schema, environment);
  end if;
  return null;
end $$;
create trigger backup_shown after insert on backups for each row execute function backup_shown();
create trigger backup_shown_otherwise after update on backups for each row
  when ((old.status, old.deleting_at) is distinct from (new.status, new.deleting_at))
  execute function backup_shown();
