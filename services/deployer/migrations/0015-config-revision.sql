-- Grows with each change of a service's configuration. A trigger counts, so that changes which a replica of the version
-- before makes are counted as well.
alter table services add column config_revision integer not null default 0;

create function service_configured() returns trigger language plpgsql as $$
begin
  new.config_revision := old.config_revision + 1;
  return new;
end $$;
create trigger service_configured before update of config on services for each row
  when (old.config <> new.config) execute function service_configured();
