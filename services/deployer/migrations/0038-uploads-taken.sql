-- Until when no other request takes what was uploaded: of two at once, one could put something else there that the other has
-- checked.
alter table backup_uploads add column taken_until timestamptz;
