-- The revision of the keys of an addon from which on they lead through its pooler: so they do while it is the newest. Another one
-- where there may be a pooler through which they do not lead, null where there is none. Until then a withdrawn one stays.
alter table services add column addon_pooler_revision integer, add column addon_pooler_until timestamptz;
