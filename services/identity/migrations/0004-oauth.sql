-- OAuth clients that registered themselves (RFC 7591), and those let in by whose document on the web describes them.
create table oauth_clients (
  id text primary key,
  metadata jsonb not null,
  registered_at timestamptz not null,
  -- Null until a user let it in.
  authorized_at timestamptz,
  last_used_at timestamptz not null,
  -- Set when it is about to be deleted, at the provider too.
  deleted_at timestamptz
);
create index oauth_clients_unauthorized on oauth_clients (registered_at, id)
  where authorized_at is null and deleted_at is null;
create index oauth_clients_idle on oauth_clients (last_used_at) where authorized_at is not null and deleted_at is null;
create index oauth_clients_deleted on oauth_clients (deleted_at) where deleted_at is not null;

-- Challenges of login and consent that were answered: each works once. Of the challenge and of the verifier, which
-- only the browser that answered gets, the SHA-256.
create table oauth_challenges (
  hash bytea primary key check (length(hash) = 32),
  verifier_hash bytea not null check (length(verifier_hash) = 32),
  expires_at timestamptz not null
);
create index oauth_challenges_end on oauth_challenges (expires_at);

-- What users granted to clients: one account each, at a role. What ended stays for a while, as tokens may name it.
create table oauth_grants (
  id text primary key,
  user_id text not null references users,
  client_id text not null,
  client_name text not null,
  account_id text not null references accounts,
  -- The membership in which it was given, which may have ended: whoever joins again grants again.
  membership_id text not null,
  role text not null check (role in ('reader', 'editor')),
  granted_at timestamptz not null,
  -- When it ends by itself; of a grant that was revoked, when that was.
  expires_at timestamptz not null,
  revoked_at timestamptz
);
create index oauth_grants_of_user on oauth_grants (user_id, client_id, granted_at desc) where revoked_at is null;
create index oauth_grants_of_client on oauth_grants (client_id) where revoked_at is null;
create index oauth_grants_end on oauth_grants (expires_at);

-- State of the embedded provider: authorization codes, refresh tokens, interactions, sessions, grants. Most ids are
-- secrets, so there is only the SHA-256 of each, and what belongs to it is sealed with a key made of it.
create table oauth_artifacts (
  hash bytea primary key check (length(hash) = 32),
  model text not null,
  sealed bytea not null,
  grant_id text,
  consumed_at timestamptz,
  expires_at timestamptz not null
);
create index oauth_artifacts_of_grant on oauth_artifacts (grant_id) where grant_id is not null;
create index oauth_artifacts_end on oauth_artifacts (expires_at);

-- Keys that sign access tokens, each sealed with a key of the installation.
create table oauth_keys (
  id text primary key,
  sealed bytea not null,
  created_at timestamptz not null
);
