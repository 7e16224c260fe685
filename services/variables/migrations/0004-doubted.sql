-- Whether the deletion of a scope was announced, as `doubts` says: in the row that every read looks at anyway.
alter table scopes add column doubted boolean not null default false;

-- A trigger marks it, so that what a replica of the version before announces counts as well. Before the doubt is there, so
-- that all who change both lock the scope first.
create function scope_doubted() returns trigger language plpgsql set search_path from current as $$
begin
  update scopes set doubted = true where id = new.scope_id;
  return new;
end $$;
create trigger scope_doubted before insert on doubts for each row execute function scope_doubted();

-- After the trigger, so that none that is announced meanwhile is missed.
update scopes set doubted = true where id in (select scope_id from doubts);
