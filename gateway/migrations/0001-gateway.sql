-- Requests per subject and minute. Unlogged: losing counts in a crash of the database harms nobody.
create unlogged table rate_counts (
  subject text primary key,
  used integer not null,
  ends_at timestamptz not null
) with (fillfactor = 50);

-- Answers kept for Idempotency-Key. Nothing here can be read without the caller's token.
create table idempotency_keys (
  id bytea primary key,
  request bytea not null,
  holder text not null,
  lease_until timestamptz not null,
  expires_at timestamptz not null,
  status integer,
  answer bytea
);
create index idempotency_keys_expires_at on idempotency_keys (expires_at);
