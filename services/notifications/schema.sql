table capacity_levels
  node text not null
  resource text not null
  level text not null
  changed_at timestamp with time zone not null default now()
  constraint capacity_levels_level_check CHECK ((level = ANY (ARRAY['ok'::text, 'low'::text, 'urgent'::text])))
  constraint capacity_levels_pkey PRIMARY KEY (node, resource)
  constraint capacity_levels_resource_check CHECK ((resource = ANY (ARRAY['disk'::text, 'memory'::text])))
table digests
  id text not null
  user_id text not null
  time_window text not null
  created_at timestamp with time zone not null default now()
  mail_state text not null default 'queued'::text
  mail_attempts integer not null default 0
  mail_reason text
  mail_at timestamp with time zone
  constraint digests_mail_state_check CHECK ((mail_state = ANY (ARRAY['queued'::text, 'retrying'::text, 'sent'::text, 'failed'::text, 'dropped'::text])))
  constraint digests_pkey PRIMARY KEY (id)
  constraint digests_user_id_time_window_key UNIQUE (user_id, time_window)
  CREATE INDEX digests_created ON digests USING btree (created_at)
table inbox
  consumer text not null
  event_id text not null
  at timestamp with time zone not null default now()
  constraint inbox_pkey PRIMARY KEY (consumer, event_id)
  CREATE INDEX inbox_at ON inbox USING btree (at)
table inbox_tries
  consumer text not null
  event_id text not null
  tries integer not null
  at timestamp with time zone not null default now()
  constraint inbox_tries_pkey PRIMARY KEY (consumer, event_id)
table incidents
  service_id text not null
  opened_at timestamp with time zone
  unhealthy_at timestamp with time zone
  closed_at timestamp with time zone
  constraint incidents_pkey PRIMARY KEY (service_id)
table kept_answers
  id bytea not null
  request bytea not null
  answer bytea
  at timestamp with time zone not null default now()
  constraint kept_answers_pkey PRIMARY KEY (id)
  CREATE INDEX kept_answers_at ON kept_answers USING btree (at)
table mail_bundles
  user_id text not null
  kind text not null
  due_at timestamp with time zone not null
  sealed boolean not null default false
  constraint mail_bundles_pkey PRIMARY KEY (user_id, kind)
table mail_bursts
  user_id text not null
  sent_at timestamp with time zone[] not null
  held boolean not null
  constraint mail_bursts_pkey PRIMARY KEY (user_id)
table mails
  id text not null
  kind text not null
  address text not null
  data jsonb not null
  queue text not null default ''::text
  created_at timestamp with time zone not null default now()
  due_at timestamp with time zone not null default now()
  tries integer not null default 0
  constraint mails_pkey PRIMARY KEY (id)
  CREATE INDEX mails_due ON mails USING btree (queue, due_at)
table notifications
  id text not null
  user_id text not null
  account_id text not null
  kind text not null
  title text not null
  body text not null
  metadata jsonb not null
  dedupe_key text not null
  visible boolean not null
  created_at timestamp with time zone not null default clock_timestamp()
  read_at timestamp with time zone
  channel text not null
  frequency text not null
  overridden boolean not null
  mail_state text not null
  mail_attempts integer not null default 0
  mail_reason text
  mail_at timestamp with time zone
  digest_at timestamp with time zone
  digest_id text
  constraint notifications_mail_state_check CHECK ((mail_state = ANY (ARRAY['none'::text, 'digest'::text, 'queued'::text, 'retrying'::text, 'sent'::text, 'failed'::text, 'dropped'::text])))
  constraint notifications_pkey PRIMARY KEY (id)
  constraint notifications_user_id_dedupe_key_key UNIQUE (user_id, dedupe_key)
  CREATE INDEX notifications_created ON notifications USING brin (created_at)
  CREATE INDEX notifications_digest ON notifications USING btree (digest_id) WHERE (digest_id IS NOT NULL)
  CREATE INDEX notifications_feed ON notifications USING btree (user_id, created_at DESC, id DESC) WHERE visible
  CREATE INDEX notifications_read ON notifications USING btree (read_at) WHERE (read_at IS NOT NULL)
  CREATE INDEX notifications_unread ON notifications USING btree (user_id, created_at DESC, id DESC) WHERE (visible AND (read_at IS NULL))
  CREATE INDEX notifications_waiting ON notifications USING btree (digest_at, user_id) WHERE ((mail_state = 'digest'::text) AND (digest_id IS NULL))
  CREATE INDEX notifications_waiting_service ON notifications USING btree (((metadata ->> 'serviceId'::text))) WHERE ((mail_state = 'digest'::text) AND (digest_id IS NULL))
  CREATE INDEX notifications_waiting_user ON notifications USING btree (user_id, kind) WHERE ((mail_state = 'digest'::text) AND (digest_id IS NULL))
  CREATE TRIGGER feed_grew AFTER INSERT ON notifications REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION feed_changed()
  CREATE TRIGGER feed_shrank AFTER DELETE ON notifications REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION feed_changed()
  CREATE TRIGGER notification_read AFTER UPDATE OF read_at, visible ON notifications FOR EACH ROW WHEN ((new.visible AND ((new.read_at IS DISTINCT FROM old.read_at) OR (NOT old.visible)))) EXECUTE FUNCTION notification_read()
table outbox
  seq bigint not null identity
  id text not null
  subject text not null
  payload bytea not null
  headers jsonb not null default '{}'::jsonb
  constraint outbox_id_key UNIQUE (id)
  constraint outbox_pkey PRIMARY KEY (seq)
table outbox_sent
  seq bigint not null
  id text not null
  subject text not null
  payload bytea not null
  headers jsonb not null
  stream_seq bigint not null
  at timestamp with time zone not null default now()
  constraint outbox_sent_pkey PRIMARY KEY (seq)
table preferences
  user_id text not null
  kind text not null
  channel text not null
  frequency text not null
  constraint preferences_channel_check CHECK ((channel = ANY (ARRAY['in_app'::text, 'email'::text, 'both'::text, 'off'::text])))
  constraint preferences_frequency_check CHECK ((frequency = ANY (ARRAY['immediate'::text, 'daily'::text, 'weekly'::text])))
  constraint preferences_pkey PRIMARY KEY (user_id, kind)
table schema_migrations
  name text not null
  at timestamp with time zone not null default now()
  oldest text
  constraint schema_migrations_pkey PRIMARY KEY (name)
table suppressions
  address text not null
  until timestamp with time zone not null
  constraint suppressions_pkey PRIMARY KEY (address)
table webhook_deliveries
  id text not null
  webhook_id text not null
  kind text not null
  body text not null
  dedupe_key text not null
  state text not null default 'pending'::text
  tries integer not null default 0
  created_at timestamp with time zone not null default now()
  queued_at timestamp with time zone not null default now()
  due_at timestamp with time zone not null default now()
  leased_until timestamp with time zone
  attempted_at timestamp with time zone
  status integer
  error text
  constraint webhook_deliveries_pkey PRIMARY KEY (id)
  constraint webhook_deliveries_state_check CHECK ((state = ANY (ARRAY['pending'::text, 'delivered'::text, 'failed'::text])))
  constraint webhook_deliveries_webhook_id_dedupe_key_key UNIQUE (webhook_id, dedupe_key)
  constraint webhook_deliveries_webhook_id_fkey FOREIGN KEY (webhook_id) REFERENCES webhooks(id) ON DELETE CASCADE
  CREATE INDEX webhook_deliveries_created ON webhook_deliveries USING btree (created_at)
  CREATE INDEX webhook_deliveries_due ON webhook_deliveries USING btree (due_at) WHERE (state = 'pending'::text)
  CREATE INDEX webhook_deliveries_list ON webhook_deliveries USING btree (webhook_id, id DESC)
  CREATE INDEX webhook_deliveries_pending ON webhook_deliveries USING btree (webhook_id, due_at) WHERE (state = 'pending'::text)
table webhooks
  id text not null
  account_id text not null
  url text not null
  description text not null
  events text[] not null
  format text not null
  enabled boolean not null default true
  disabled_reason text
  disabled_at timestamp with time zone
  secret bytea not null
  previous_secret bytea
  previous_until timestamp with time zone
  succeeded_at timestamp with time zone
  created_at timestamp with time zone not null default now()
  constraint webhooks_disabled_reason_check CHECK ((disabled_reason = ANY (ARRAY['requested'::text, 'failing'::text, 'gone'::text])))
  constraint webhooks_format_check CHECK ((format = ANY (ARRAY['standard'::text, 'slack'::text])))
  constraint webhooks_pkey PRIMARY KEY (id)
  CREATE INDEX webhooks_account ON webhooks USING btree (account_id, id DESC)
