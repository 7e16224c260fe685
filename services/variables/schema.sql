table addon_keys
  service_id text not null
  key text not null
  sensitive boolean not null
  sealed bytea not null
  size integer not null
  constraint addon_keys_pkey PRIMARY KEY (service_id, key)
table changes
  scope_id text not null
  revision bigint not null
  names text[] not null default '{}'::text[]
  addons text[] not null default '{}'::text[]
  constraint changes_pkey PRIMARY KEY (scope_id, revision)
table data_keys
  account_id text not null
  kek_id text not null
  wrapped bytea not null
  constraint data_keys_pkey PRIMARY KEY (account_id)
table doubts
  scope_id text not null
  at timestamp with time zone not null default now()
  constraint doubts_pkey PRIMARY KEY (scope_id)
  CREATE TRIGGER scope_doubted BEFORE INSERT ON doubts FOR EACH ROW EXECUTE FUNCTION scope_doubted()
  CREATE TRIGGER scope_may_have_config_env AFTER DELETE ON doubts FOR EACH ROW EXECUTE FUNCTION scope_may_have_config_env()
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
table schema_migrations
  name text not null
  at timestamp with time zone not null default now()
  oldest text
  constraint schema_migrations_pkey PRIMARY KEY (name)
table scopes
  id text not null
  account_id text not null
  parent_id text
  kind text not null
  name text
  type text
  revision bigint not null default 0
  variables integer not null default 0
  bytes integer not null default 0
  refs integer not null default 0
  widest integer not null default 0
  widest_key integer not null default 0
  ready boolean not null default false
  keys_revision bigint not null default 0
  deleted_at timestamp with time zone
  doubted boolean not null default false
  config_env_at timestamp with time zone default now()
  named_at timestamp with time zone
  constraint scopes_check CHECK (((kind = 'service'::text) OR ((name IS NULL) AND (type IS NULL))))
  constraint scopes_check1 CHECK (((parent_id IS NULL) = (kind = 'project'::text)))
  constraint scopes_kind_check CHECK ((kind = ANY (ARRAY['project'::text, 'environment'::text, 'service'::text])))
  constraint scopes_pkey PRIMARY KEY (id)
  CREATE UNIQUE INDEX scopes_child ON scopes USING btree (parent_id, name) WHERE (deleted_at IS NULL)
  CREATE TRIGGER scope_changed AFTER UPDATE ON scopes FOR EACH ROW WHEN ((((old.revision IS DISTINCT FROM new.revision) OR (old.deleted_at IS DISTINCT FROM new.deleted_at)) OR (old.config_env_at IS DISTINCT FROM new.config_env_at))) EXECUTE FUNCTION scope_changed()
table variables
  scope_id text not null
  name text not null
  id text not null
  revision bigint not null
  sensitive boolean not null
  sealed bytea
  size integer not null default 0
  connection_service text
  connection_key text
  alias_target text
  created_at timestamp with time zone not null default now()
  updated_at timestamp with time zone not null default now()
  constraint variables_check CHECK ((num_nonnulls(sealed, connection_service, alias_target) = 1))
  constraint variables_check1 CHECK (((connection_service IS NULL) = (connection_key IS NULL)))
  constraint variables_check2 CHECK (((sealed IS NOT NULL) OR ((NOT sensitive) AND (size = 0))))
  constraint variables_pkey PRIMARY KEY (scope_id, name)
  CREATE INDEX variables_aliases ON variables USING btree (scope_id) INCLUDE (name, alias_target) WHERE (alias_target IS NOT NULL)
  CREATE UNIQUE INDEX variables_newest ON variables USING btree (scope_id, id DESC)
