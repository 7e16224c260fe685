-- Null: nobody vouched for the e-mail. So are users whom an owner made with a password of his choice, by an older
-- version too that still runs beside this one. They keep what they have; a mailed link proves the e-mail.
alter table users add column email_verified_at timestamptz;
update users set email_verified_at = created_at where id in (select user_id from bootstrap);

-- Where a session was signed in from.
alter table tokens add column ip text;
create index tokens_sessions_newest on tokens (user_id, id desc) where kind = 'session' and revoked_at is null;

-- Who was invited and has not answered. Of the link only the hash; nonce and a key of the installation make it again.
create table invitations (
  id text primary key,
  account_id text not null references accounts,
  email text not null check (email = lower(email)),
  role text not null check (role in ('reader', 'editor', 'owner')),
  invited_by text not null references users,
  nonce text not null,
  token_hash bytea not null constraint invitations_token_hash_key unique check (length(token_hash) = 32),
  created_at timestamptz not null,
  expires_at timestamptz not null,
  constraint invitations_account_email_key unique (account_id, email)
);
create index invitations_newest on invitations (account_id, id desc);
create index invitations_of_email on invitations (email, id desc);
create index invitations_end on invitations (expires_at);

-- Links that set a new password; the id is that of the mail that carries it.
create table password_resets (
  id text primary key,
  user_id text not null references users,
  token_hash bytea not null constraint password_resets_token_hash_key unique check (length(token_hash) = 32),
  expires_at timestamptz not null,
  used_at timestamptz
);
create index password_resets_of_user on password_resets (user_id) where used_at is null;
create index password_resets_end on password_resets (expires_at);

-- Mails on their way (kit/mail).
create table mails (
  id text primary key,
  kind text not null,
  address text not null,
  data jsonb not null,
  created_at timestamptz not null default now(),
  due_at timestamptz not null default now(),
  tries integer not null default 0
);
create index mails_due on mails (due_at);
