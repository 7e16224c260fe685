-- The moment whose data a backup is to have. The name of its object says that it has: a process of before, which knows no
-- moments, may take such a backup, and cannot record the data of another time as it.
alter table backups add column as_of timestamptz;
alter table backups add constraint backups_as_of check (as_of is null or object is null or object like '%.at-%') not valid;
alter table backups validate constraint backups_as_of;
