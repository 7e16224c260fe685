-- When users were or are next sent a mail of kinds that are forced and frequent (docs/notifications.md#digests). A
-- sealed bundle was composed: it takes no more.
create table mail_bundles (
  user_id text not null,
  kind text not null,
  due_at timestamptz not null,
  sealed boolean not null default false,
  primary key (user_id, kind)
);
