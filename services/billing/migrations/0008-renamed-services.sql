-- Since when a service has its name: an older event does not bring a former one back.
alter table usage_services add column named_at timestamptz;
