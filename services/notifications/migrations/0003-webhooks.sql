-- URLs to which the events of accounts are sent.
create table webhooks (
  id text primary key,
  account_id text not null,
  url text not null,
  description text not null,
  -- Kinds, deploy.* for all that begin so, * for all.
  events text[] not null,
  format text not null check (format in ('standard', 'slack')),
  enabled boolean not null default true,
  disabled_reason text check (disabled_reason in ('requested', 'failing', 'gone')),
  disabled_at timestamptz,
  -- Sealed. The previous secret signs as well until its time.
  secret bytea not null,
  previous_secret bytea,
  previous_until timestamptz,
  succeeded_at timestamptz,
  created_at timestamptz not null default now()
);
create index webhooks_account on webhooks (account_id, id desc);

create table webhook_deliveries (
  id text primary key,
  webhook_id text not null references webhooks (id) on delete cascade,
  kind text not null,
  body text not null,
  -- The same thing is sent to a webhook once, however often its event arrives.
  dedupe_key text not null,
  state text not null default 'pending' check (state in ('pending', 'delivered', 'failed')),
  tries int not null default 0,
  created_at timestamptz not null default now(),
  -- When it was created or replayed.
  queued_at timestamptz not null default now(),
  due_at timestamptz not null default now(),
  -- While an attempt is under way: until when no other process makes one.
  leased_until timestamptz,
  attempted_at timestamptz,
  status int,
  error text,
  unique (webhook_id, dedupe_key)
);
create index webhook_deliveries_list on webhook_deliveries (webhook_id, id desc);
create index webhook_deliveries_due on webhook_deliveries (due_at) where state = 'pending';
create index webhook_deliveries_pending on webhook_deliveries (webhook_id, due_at) where state = 'pending';
-- For retention.
create index webhook_deliveries_created on webhook_deliveries (created_at);
