-- Failed addons are tried again too.
create index services_unfinished on services (id)
  where deleting_at is not null or addon_state in ('provisioning', 'failed') or dirty_at is not null;
drop index services_unsettled;
