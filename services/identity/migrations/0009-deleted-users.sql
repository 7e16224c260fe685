-- A deleted user's row stays, without what says who it was: the audit log and invitations refer to its id.
alter table users add column deleted_at timestamptz;

-- What applications may do in an account.
create index oauth_grants_of_account on oauth_grants (account_id) where revoked_at is null;
