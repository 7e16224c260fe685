-- Nothing is created any more in an account that is deleted.
alter table accounts add column deleted_at timestamptz;
