-- What an addon was made with, where there is a choice: another engine does not have its data. Null: the usual one.
alter table services add column addon_engine text;
-- Of an addon with standbys, the server that takes writes: another one has taken over where this changes.
alter table services add column addon_primary text;
