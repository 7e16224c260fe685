-- A deleted account's row stays: the audit log, invitations and notifications refer to its id. Its handle is free.
alter table accounts add column deleted_at timestamptz, add column former_handle text;

create index tokens_of_account on tokens (account_id) where account_id is not null and revoked_at is null;
