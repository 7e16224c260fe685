-- What was removed. Only what is known here to be removed is ended where it runs: a database that is empty, or as old as
-- its backup, says nothing of the services and environments that it does not have. Of these rows there are few, and
-- each is small: they stay.
create table removed (
  id text primary key,
  removed_at timestamptz not null default now()
);
create function remember_removed() returns trigger language plpgsql as $$
begin
  insert into removed (id) values (old.id) on conflict do nothing;
  return null;
end $$;
create trigger service_removed after delete on services for each row execute function remember_removed();
-- A version that runs and that no deployment has: it was applied after the backup. It runs on until the next deployment.
alter table services add column kept_version integer;
