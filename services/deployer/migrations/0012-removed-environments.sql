-- Apart from the one before: a migration locks one busy table.
create trigger environment_removed after delete on environments for each row execute function remember_removed();
