-- The plan that billing reported, null if none, and its revision. Nothing has reported plans before, so all are 'free' by
-- the former default. Processes of the version before take null for free.
alter table accounts alter column tier drop default, alter column tier drop not null;
update accounts set tier = null;
alter table accounts add column tier_revision bigint not null default 0;
