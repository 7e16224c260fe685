-- As 0034, of restores. Apart from it: a migration locks one busy table.
create trigger restore_shown after insert on restores for each row execute function backup_shown();
create trigger restore_shown_otherwise after update on restores for each row
  when ((old.status, old.backup_id, old.started_at) is distinct from (new.status, new.backup_id, new.started_at))
  execute function backup_shown();
