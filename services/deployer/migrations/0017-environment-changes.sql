-- Which services of an environment changed as users see them, for those who follow it. Triggers write it, so that no
-- statement can change a service without its followers hearing of it. Rows are only added, which waits for nobody: `xid`,
-- compared with the oldest transaction under way, says what a reader may not have seen. They are deleted after minutes.
create table environment_changes (
  environment_id text not null,
  service_id text not null,
  xid bigint not null default pg_current_xact_id()::text::bigint,
  at timestamptz not null default clock_timestamp()
);
create index environment_changes_of on environment_changes (environment_id, xid);
create index environment_changes_at on environment_changes (at);

-- How many replicas answer; null where no process of this version has recorded it.
alter table services add column available integer;

-- Followers listen on the channel of those of deployments (0004).
create function service_shown() returns trigger language plpgsql set search_path from current as $$
begin
  insert into environment_changes (environment_id, service_id)
  values (coalesce(new.environment_id, old.environment_id), coalesce(new.id, old.id));
  perform pg_notify('deployer-follow:' || tg_table_schema, coalesce(new.environment_id, old.environment_id));
  return null;
end $$;
create trigger service_shown after insert or delete on services for each row execute function service_shown();
create trigger service_shown_otherwise after update on services for each row
  when ((old.name, old.source, old.config, old.staged, old.deleting_at, old.live_version, old.pending_variables,
      old.runtime_state, old.runtime_message, old.serving_version, old.available, old.url, old.addon_state,
      old.addon_message, old.addon_rotated_at)
    is distinct from (new.name, new.source, new.config, new.staged, new.deleting_at, new.live_version,
      new.pending_variables, new.runtime_state, new.runtime_message, new.serving_version, new.available, new.url,
      new.addon_state, new.addon_message, new.addon_rotated_at))
  execute function service_shown();
