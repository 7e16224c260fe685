-- From where an e-mail signed in; the key is the one of its attempts, a hash of both.
create table known_networks (
  key bytea primary key,
  expires_at timestamptz not null
);
create index known_networks_end on known_networks (expires_at);
