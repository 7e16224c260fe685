-- OAuth clients that registered themselves (RFC 7591).
create table oauth_clients (
  id text primary key,
  metadata jsonb not null,
  registered_at timestamptz not null,
  -- Null until a user let it in.
  authorized_at timestamptz,
  last_used_at timestamptz not null
);
create index oauth_clients_unauthorized on oauth_clients (registered_at) where authorized_at is null;
create index oauth_clients_idle on oauth_clients (last_used_at) where authorized_at is not null;

-- Challenges of login and consent that were answered: each works once. Of the challenge and of the verifier, which
-- only the browser that answered gets, the SHA-256.
create table oauth_challenges (
  hash bytea primary key check (length(hash) = 32),
  verifier_hash bytea not null check (length(verifier_hash) = 32),
  expires_at timestamptz not null
);
create index oauth_challenges_end on oauth_challenges (expires_at);

-- What users granted to clients: one account each, at a role. What was revoked stays for a while, as tokens may name it.
create table oauth_grants (
  id text primary key,
  user_id text not null references users,
  client_id text not null,
  client_name text not null,
  account_id text not null references accounts,
  role text not null check (role in ('reader', 'editor')),
  granted_at timestamptz not null,
  revoked_at timestamptz
);
create index oauth_grants_of_user on oauth_grants (user_id, client_id) where revoked_at is null;
create index oauth_grants_of_client on oauth_grants (client_id) where revoked_at is null;
create index oauth_grants_revoked on oauth_grants (revoked_at) where revoked_at is not null;

-- State of the embedded provider: authorization codes, refresh tokens, interactions, sessions, grants. Ids of what
-- is a secret are SHA-256.
create table oauth_artifacts (
  model text not null,
  id text not null,
  payload jsonb not null,
  grant_id text,
  uid text,
  consumed_at timestamptz,
  expires_at timestamptz not null,
  primary key (model, id)
);
create index oauth_artifacts_of_grant on oauth_artifacts (grant_id) where grant_id is not null;
create index oauth_artifacts_by_uid on oauth_artifacts (model, uid) where uid is not null;
create index oauth_artifacts_end on oauth_artifacts (expires_at);

-- Keys that sign access tokens, each sealed with a key of the installation.
create table oauth_keys (
  id text primary key,
  sealed bytea not null,
  created_at timestamptz not null
);
