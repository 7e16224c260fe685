-- Why services of an account beyond the allowance are stopped, as billing reports it, with the revision of that.
alter table accounts add column suspended text, add column suspension_revision bigint not null default 0;
-- Why this one is stopped; null when it may run. A process of the version before does not look at it: what that starts
-- is stopped again when billing repeats its report, and by each process of this version.
alter table services add column suspended text;

-- Followers of an environment hear of it (0017).
create trigger service_suspended after update of suspended on services for each row
  when (old.suspended is distinct from new.suspended) execute function service_shown();
