table idempotency_keys
  id bytea not null
  request bytea not null
  holder text not null
  lease_until timestamp with time zone not null
  expires_at timestamp with time zone not null
  status integer
  answer bytea
  request_json bytea
  constraint idempotency_keys_pkey PRIMARY KEY (id)
  CREATE INDEX idempotency_keys_expires_at ON idempotency_keys USING btree (expires_at)
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
table kept_answers
  id bytea not null
  request bytea not null
  answer bytea
  at timestamp with time zone not null default now()
  constraint kept_answers_pkey PRIMARY KEY (id)
  CREATE INDEX kept_answers_at ON kept_answers USING btree (at)
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
table rate_counts
  subject text not null
  used integer not null
  ends_at timestamp with time zone not null
  constraint rate_counts_pkey PRIMARY KEY (subject)
table schema_migrations
  name text not null
  at timestamp with time zone not null default now()
  oldest text
  constraint schema_migrations_pkey PRIMARY KEY (name)
table streams
  who text not null
  place integer not null
  holder text not null
  held_until timestamp with time zone not null
  constraint streams_pkey PRIMARY KEY (who, place)
  CREATE INDEX streams_held_until ON streams USING btree (held_until)
table used_confirmations
  id bytea not null
  expires_at timestamp with time zone not null
  constraint used_confirmations_pkey PRIMARY KEY (id)
  CREATE INDEX used_confirmations_expires_at ON used_confirmations USING btree (expires_at)
