-- What a service's objects on a cluster are called, where that is not its name: it was renamed, or a renamed one has them.
-- And since when it has its name: null of one that was never renamed.
alter table services add column object_name text, add column named_at timestamptz;

-- A trigger chooses, so that what a replica of the version before creates does not take the objects of another service.
-- Whoever renames a service holds its environment, as whoever creates one does.
create function service_object_name() returns trigger language plpgsql set search_path from current as $$
begin
  if exists (select from services where environment_id = new.environment_id and object_name = new.name) then
    new.object_name := new.name || '-' || left(encode(sha256(convert_to(new.id, 'UTF8')), 'hex'), 8);
  end if;
  return new;
end $$;
create trigger service_object_name before insert on services for each row execute function service_object_name();
