-- As 0017, of what a service shows of its deployments. Apart from it: a migration locks one busy table.
create function deployment_shown() returns trigger language plpgsql set search_path from current as $$
declare
  environment text;
begin
  insert into environment_changes (environment_id, service_id)
  select environment_id, id from services where id = new.service_id
  returning environment_id into environment;
  perform pg_notify('deployer-follow:' || tg_table_schema, environment);
  return null;
end $$;
create trigger deployment_shown after insert on deployments for each row execute function deployment_shown();
create trigger deployment_shown_otherwise after update on deployments for each row
  when ((old.status, old.build_stage, old.image, old.branch, old.commit, old.source, old.config, old.healthy_at, old.errors)
    is distinct from (new.status, new.build_stage, new.image, new.branch, new.commit, new.source, new.config,
      new.healthy_at, new.errors))
  execute function deployment_shown();
