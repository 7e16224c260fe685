-- What a deployment looked like each time it changed, for those who follow it. Triggers write it, so that no
-- statement can change a deployment without its followers hearing of it.
create table deployment_states (
  deployment_id text not null references deployments (id) on delete cascade,
  seq integer not null,
  -- It entered a state or was first seen healthy; otherwise something else changed that users see.
  moved boolean not null,
  -- The deployment's row at that time.
  row jsonb not null,
  primary key (deployment_id, seq)
);

-- Grows over all builds of a deployment, also where its log begins anew.
alter table build_logs add column position bigint not null generated always as identity;
create index build_logs_position on build_logs (deployment_id, position);

-- Followers listen on one channel: a service's id stands for its deployments, a deployment's for its build log.
create function deployment_changed() returns trigger language plpgsql set search_path from current as $$
declare
  hidden constant text[] := array['artifact', 'apply_started_at', 'leftover', 'config', 'source'];
begin
  perform pg_notify('deployer-follow:' || tg_table_schema, coalesce(new.service_id, old.service_id));
  if tg_op = 'DELETE' or to_jsonb(new) - hidden = to_jsonb(old) - hidden then
    return null;
  end if;
  if tg_op = 'INSERT' then
    -- Only to resume with, so only of the newest: without it a follower begins with the deployment as it is.
    delete from deployment_states s using deployments d
    where s.deployment_id = d.id and d.service_id = new.service_id and d.version = new.version - 3;
  end if;
  insert into deployment_states (deployment_id, seq, moved, row)
  select new.id, coalesce(max(seq), 0) + 1,
    (new.status, new.healthy_at) is distinct from (old.status, old.healthy_at), to_jsonb(new)
  from deployment_states where deployment_id = new.id;
  return null;
end $$;
create trigger deployment_changed after insert or update or delete on deployments
  for each row execute function deployment_changed();

create function build_log_grew() returns trigger language plpgsql as $$
begin
  perform pg_notify('deployer-follow:' || tg_table_schema, new.deployment_id);
  return null;
end $$;
create trigger build_log_grew after insert on build_logs for each row execute function build_log_grew();
