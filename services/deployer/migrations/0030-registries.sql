-- Logins with which images of an account are pulled; the token is sealed.
create table registries (
  id text primary key,
  account_id text not null,
  host text not null,
  username text not null,
  token bytea not null,
  created_at timestamptz not null default now(),
  rotated_at timestamptz,
  constraint registries_host unique (account_id, host)
);
