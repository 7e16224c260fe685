-- Whether the account's services may run beyond the allowance, as billing reports it, with the revision of that.
alter table accounts add column suspended text, add column grace_until timestamptz,
  add column suspension_revision bigint not null default 0;
