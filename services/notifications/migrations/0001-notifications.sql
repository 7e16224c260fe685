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
  -- The time of the insert, not of its transaction: never before the start that pg_stat_activity shows, as streams need.
  created_at timestamptz not null default clock_timestamp(),
  read_at timestamptz,
  -- The preference that applied.
  channel text not null,
  frequency text not null,
  overridden boolean not null,
  mail_state text not null check (mail_state in ('none', 'digest', 'queued', 'retrying', 'sent', 'failed', 'dropped')),
  mail_attempts int not null default 0,
  mail_reason text,
  mail_at timestamptz,
  -- With mail_state 'digest': when it is due, and the digest that took it, which knows what became of the mail.
  digest_at timestamptz,
  digest_id text,
  unique (user_id, dedupe_key)
);
create index notifications_feed on notifications (user_id, created_at desc, id desc) where visible;
create index notifications_unread on notifications (user_id, created_at desc, id desc) where visible and read_at is null;
-- What waits for a digest, and what a digest holds.
create index notifications_waiting on notifications (digest_at, user_id) where mail_state = 'digest' and digest_id is null;
create index notifications_waiting_user on notifications (user_id, kind) where mail_state = 'digest' and digest_id is null;
create index notifications_waiting_service on notifications ((metadata->>'serviceId'))
  where mail_state = 'digest' and digest_id is null;
create index notifications_digest on notifications (digest_id) where digest_id is not null;
-- For retention.
create index notifications_read on notifications (read_at) where read_at is not null;
create index notifications_created on notifications using brin (created_at);

-- One mail for each user and window, such as daily:2026-11-20.
create table digests (
  id text primary key,
  user_id text not null,
  time_window text not null,
  created_at timestamptz not null default now(),
  mail_state text not null default 'queued' check (mail_state in ('queued', 'retrying', 'sent', 'failed', 'dropped')),
  mail_attempts int not null default 0,
  mail_reason text,
  mail_at timestamptz,
  unique (user_id, time_window)
);
create index digests_created on digests (created_at);

-- When users were last sent mails that are not forced, newest last (docs/notifications.md#digests).
create table mail_bursts (
  user_id text primary key,
  sent_at timestamptz[] not null,
  held boolean not null
);

-- Streams listen on one channel: a user's id stands for the feed.
create function feed_changed() returns trigger language plpgsql as $$
begin
  perform pg_notify('notifications-follow:' || tg_table_schema, user_id)
  from (select distinct user_id from changed where visible) changed;
  return null;
end $$;
create trigger feed_grew after insert on notifications referencing new table as changed
  for each statement execute function feed_changed();
create trigger feed_shrank after delete on notifications referencing old table as changed
  for each statement execute function feed_changed();

create function notification_read() returns trigger language plpgsql as $$
begin
  perform pg_notify('notifications-follow:' || tg_table_schema, new.user_id);
  return null;
end $$;
create trigger notification_read after update of read_at, visible on notifications
  for each row when (new.visible and (new.read_at is distinct from old.read_at or not old.visible))
  execute function notification_read();

-- The health of services (docs/notifications.md#incidents): their last incident.
create table incidents (
  service_id text primary key,
  opened_at timestamptz,
  unhealthy_at timestamptz,
  -- Null while the service is unhealthy.
  closed_at timestamptz
);

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

-- Addresses that the mail server refused for good; nothing is mailed to them until then.
create table suppressions (
  address text primary key,
  until timestamptz not null
);
