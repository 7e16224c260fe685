-- Confirmations of tools that were used. Each works once, at whichever gateway it arrives.
create table used_confirmations (
  id bytea primary key,
  expires_at timestamptz not null
);
create index used_confirmations_expires_at on used_confirmations (expires_at);
