-- What audit records can be found by: their target, and each variable that they are about, as SCOPE_ID/NAME: the name of a
-- variable alone is that of many. By a trigger, so that what processes of the previous version store is found as well.
create table audit_event_targets (
  account_id text not null,
  target text not null,
  event_id text not null,
  primary key (account_id, target, event_id)
);

create function audit_targets(action text, target text, metadata jsonb) returns setof text language sql immutable
set search_path from current as $$
  -- Longer ones would not fit into the index, and the record itself must never fail.
  select left(target, 512)
  union
  select left(metadata ->> 'scopeId' || '/' || name, 512)
  from unnest(case action when 'variable.batch'
    then string_to_array(metadata ->> 'set', ',') || string_to_array(metadata ->> 'unset', ',')
    else array[target] end) name
  where action like 'variable.%' and metadata ? 'scopeId' and name <> ''
$$;

create function audit_event_found() returns trigger language plpgsql set search_path from current as $$
begin
  insert into audit_event_targets (account_id, target, event_id)
  select new.account_id, one, new.id from audit_targets(new.action, new.target, new.metadata) one;
  return null;
end $$;
create trigger audit_event_found after insert on audit_events for each row execute function audit_event_found();

insert into audit_event_targets (account_id, target, event_id)
select e.account_id, one, e.id from audit_events e, audit_targets(e.action, e.target, e.metadata) one;
