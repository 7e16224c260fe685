-- What users chose; without a row the catalogue's default applies.
create table preferences (
  user_id text not null,
  kind text not null,
  channel text not null check (channel in ('in_app', 'email', 'both', 'off')),
  frequency text not null check (frequency in ('immediate', 'daily', 'weekly')),
  primary key (user_id, kind)
);

create table notifications (
  id text primary key,
  user_id text not null,
  account_id text not null,
  kind text not null,
  title text not null,
  body text not null,
  metadata jsonb not null,
  -- The same thing happens to a user once, however often its event arrives.
  dedupe_key text not null,
  visible boolean not null,
  created_at timestamptz not null default now(),
  read_at timestamptz,
  -- The preference that applied.
  channel text not null,
  frequency text not null,
  overridden boolean not null,
  mail_state text not null check (mail_state in ('none', 'digest', 'queued', 'retrying', 'sent', 'failed', 'dropped')),
  mail_attempts int not null default 0,
  mail_reason text,
  mail_at timestamptz,
  unique (user_id, dedupe_key)
);
create index notifications_feed on notifications (user_id, created_at desc, id desc) where visible;
create index notifications_unread on notifications (user_id, created_at desc, id desc) where visible and read_at is null;

-- Mails on their way (kit/mail).
create table mails (
  id text primary key,
  kind text not null,
  address text not null,
  data jsonb not null,
  queue text not null default '',
  created_at timestamptz not null default now(),
  due_at timestamptz not null default now(),
  tries integer not null default 0
);
create index mails_due on mails (queue, due_at);
