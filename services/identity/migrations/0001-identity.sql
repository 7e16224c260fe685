create table users (
  id text primary key,
  -- Lower case: one person, however the address is typed.
  email text not null constraint users_email_key unique check (email = lower(email)),
  display_name text not null,
  -- Null for a user who signs in with a token only.
  password_hash text,
  created_at timestamptz not null default now(),
  disabled_at timestamptz
);

create table accounts (
  id text primary key,
  handle text not null constraint accounts_handle_key unique,
  display_name text not null,
  created_at timestamptz not null default now()
);

create table memberships (
  -- Sortable by creation: the sort key of the list of members.
  id text primary key,
  account_id text not null references accounts,
  user_id text not null references users,
  role text not null check (role in ('reader', 'editor', 'owner')),
  created_at timestamptz not null default now(),
  constraint memberships_account_user_key unique (account_id, user_id)
);
create index memberships_newest on memberships (account_id, id desc);
create index memberships_of_user on memberships (user_id, account_id desc);

-- Sessions and personal tokens: the text of neither, only its SHA-256.
create table tokens (
  id text primary key,
  user_id text not null references users,
  kind text not null check (kind in ('session', 'token')),
  name text not null,
  hash bytea not null constraint tokens_hash_key unique check (length(hash) = 32),
  last_four text not null,
  role_cap text check (role_cap in ('reader', 'editor', 'owner')),
  account_id text references accounts,
  created_at timestamptz not null,
  expires_at timestamptz not null,
  last_used_at timestamptz,
  revoked_at timestamptz
);
create index tokens_newest on tokens (user_id, id desc) where kind = 'token' and revoked_at is null;
create index tokens_sessions_end on tokens (expires_at) where kind = 'session';

-- Failed sign-ins per e-mail and network within the window; the key is a hash of both.
create table sign_in_attempts (
  key bytea primary key,
  failed_at timestamptz[] not null,
  expires_at timestamptz not null
);
create index sign_in_attempts_end on sign_in_attempts (expires_at);

-- What the first start made: at most one row.
create table bootstrap (
  one boolean primary key default true check (one),
  email text not null,
  user_id text not null references users,
  account_id text not null references accounts,
  token_id text references tokens
);

-- Audit records of every service. Rows without an account hold an empty account_id.
create table audit_events (
  id text primary key,
  account_id text not null,
  action text not null,
  actor_kind text not null,
  actor_id text not null,
  actor_token_id text,
  target text not null,
  metadata jsonb not null,
  request_id text not null,
  ip text not null,
  at timestamptz not null
);
create index audit_events_newest on audit_events (account_id, id desc);
create index audit_events_by_action on audit_events (account_id, action, id desc);
create index audit_events_by_actor on audit_events (account_id, actor_id, id desc);
