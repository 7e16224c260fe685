-- The plan that billing reported, null if none, and its revision.
alter table accounts add column tier text, add column tier_revision bigint not null default 0;
