-- As 0034, of proofs, which show only how they ended.
create trigger proof_shown after update on proofs for each row
  when (old.status is distinct from new.status) execute function backup_shown();
