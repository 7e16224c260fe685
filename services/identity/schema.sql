table accounts
  id text not null
  handle text not null
  display_name text not null
  created_at timestamp with time zone not null default now()
  tier text
  tier_revision bigint not null default 0
  deleted_at timestamp with time zone
  former_handle text
  suspended text
  grace_until timestamp with time zone
  suspension_revision bigint not null default 0
  constraint accounts_handle_key UNIQUE (handle)
  constraint accounts_pkey PRIMARY KEY (id)
table audit_event_targets
  account_id text not null
  target text not null
  event_id text not null
  constraint audit_event_targets_pkey PRIMARY KEY (account_id, target, event_id)
table audit_events
  id text not null
  account_id text not null
  action text not null
  actor_kind text not null
  actor_id text not null
  actor_token_id text
  target text not null
  metadata jsonb not null
  request_id text not null
  ip text not null
  at timestamp with time zone not null
  constraint audit_events_pkey PRIMARY KEY (id)
  CREATE INDEX audit_events_by_action ON audit_events USING btree (account_id, action, id DESC)
  CREATE INDEX audit_events_by_actor ON audit_events USING btree (account_id, actor_id, id DESC)
  CREATE INDEX audit_events_newest ON audit_events USING btree (account_id, id DESC)
  CREATE TRIGGER audit_event_found AFTER INSERT ON audit_events FOR EACH ROW EXECUTE FUNCTION audit_event_found()
table bootstrap
  one boolean not null default true
  email text not null
  user_id text not null
  account_id text not null
  token_id text
  constraint bootstrap_account_id_fkey FOREIGN KEY (account_id) REFERENCES accounts(id)
  constraint bootstrap_one_check CHECK (one)
  constraint bootstrap_pkey PRIMARY KEY (one)
  constraint bootstrap_token_id_fkey FOREIGN KEY (token_id) REFERENCES tokens(id)
  constraint bootstrap_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id)
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
table invitations
  id text not null
  account_id text not null
  email text not null
  role text not null
  invited_by text not null
  nonce text not null
  token_hash bytea not null
  created_at timestamp with time zone not null
  expires_at timestamp with time zone not null
  constraint invitations_account_email_key UNIQUE (account_id, email)
  constraint invitations_account_id_fkey FOREIGN KEY (account_id) REFERENCES accounts(id)
  constraint invitations_email_check CHECK ((email = lower(email)))
  constraint invitations_invited_by_fkey FOREIGN KEY (invited_by) REFERENCES users(id)
  constraint invitations_pkey PRIMARY KEY (id)
  constraint invitations_role_check CHECK ((role = ANY (ARRAY['reader'::text, 'editor'::text, 'owner'::text])))
  constraint invitations_token_hash_check CHECK ((length(token_hash) = 32))
  constraint invitations_token_hash_key UNIQUE (token_hash)
  CREATE INDEX invitations_end ON invitations USING btree (expires_at)
  CREATE INDEX invitations_newest ON invitations USING btree (account_id, id DESC)
  CREATE INDEX invitations_of_email ON invitations USING btree (email, id DESC)
table kept_answers
  id bytea not null
  request bytea not null
  answer bytea
  at timestamp with time zone not null default now()
  constraint kept_answers_pkey PRIMARY KEY (id)
  CREATE INDEX kept_answers_at ON kept_answers USING btree (at)
table known_networks
  key bytea not null
  expires_at timestamp with time zone not null
  constraint known_networks_pkey PRIMARY KEY (key)
  CREATE INDEX known_networks_end ON known_networks USING btree (expires_at)
table mails
  id text not null
  kind text not null
  address text not null
  data jsonb not null
  created_at timestamp with time zone not null default now()
  due_at timestamp with time zone not null default now()
  tries integer not null default 0
  queue text not null default ''::text
  constraint mails_pkey PRIMARY KEY (id)
  CREATE INDEX mails_due ON mails USING btree (queue, due_at)
table memberships
  id text not null
  account_id text not null
  user_id text not null
  role text not null
  created_at timestamp with time zone not null default now()
  constraint memberships_account_id_fkey FOREIGN KEY (account_id) REFERENCES accounts(id)
  constraint memberships_account_user_key UNIQUE (account_id, user_id)
  constraint memberships_pkey PRIMARY KEY (id)
  constraint memberships_role_check CHECK ((role = ANY (ARRAY['reader'::text, 'editor'::text, 'owner'::text])))
  constraint memberships_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id)
  CREATE INDEX memberships_newest ON memberships USING btree (account_id, id DESC)
  CREATE INDEX memberships_of_user ON memberships USING btree (user_id, account_id DESC)
table oauth_artifacts
  hash bytea not null
  model text not null
  sealed bytea not null
  grant_id text
  consumed_at timestamp with time zone
  expires_at timestamp with time zone not null
  constraint oauth_artifacts_hash_check CHECK ((length(hash) = 32))
  constraint oauth_artifacts_pkey PRIMARY KEY (hash)
  CREATE INDEX oauth_artifacts_end ON oauth_artifacts USING btree (expires_at)
  CREATE INDEX oauth_artifacts_of_grant ON oauth_artifacts USING btree (grant_id) WHERE (grant_id IS NOT NULL)
table oauth_challenges
  hash bytea not null
  verifier_hash bytea not null
  expires_at timestamp with time zone not null
  constraint oauth_challenges_hash_check CHECK ((length(hash) = 32))
  constraint oauth_challenges_pkey PRIMARY KEY (hash)
  constraint oauth_challenges_verifier_hash_check CHECK ((length(verifier_hash) = 32))
  CREATE INDEX oauth_challenges_end ON oauth_challenges USING btree (expires_at)
table oauth_clients
  id text not null
  metadata jsonb not null
  registered_at timestamp with time zone not null
  authorized_at timestamp with time zone
  last_used_at timestamp with time zone not null
  deleted_at timestamp with time zone
  device_grant boolean not null default false
  constraint oauth_clients_pkey PRIMARY KEY (id)
  CREATE INDEX oauth_clients_deleted ON oauth_clients USING btree (deleted_at) WHERE (deleted_at IS NOT NULL)
  CREATE INDEX oauth_clients_idle ON oauth_clients USING btree (last_used_at) WHERE ((authorized_at IS NOT NULL) AND (deleted_at IS NULL))
  CREATE INDEX oauth_clients_unauthorized ON oauth_clients USING btree (registered_at, id) WHERE ((authorized_at IS NULL) AND (deleted_at IS NULL))
table oauth_devices
  hash bytea not null
  user_code text not null
  client_id text not null
  scope text[] not null
  resource text[] not null
  subject text
  ip text not null
  requested_at timestamp with time zone not null
  expires_at timestamp with time zone not null
  interval_seconds integer not null
  polled_at timestamp with time zone
  polled_early boolean not null default false
  decided_at timestamp with time zone
  grant_id text
  consumed_at timestamp with time zone
  constraint oauth_devices_hash_check CHECK ((length(hash) = 32))
  constraint oauth_devices_pkey PRIMARY KEY (hash)
  constraint oauth_devices_user_code_key UNIQUE (user_code)
  CREATE INDEX oauth_devices_end ON oauth_devices USING btree (expires_at)
  CREATE INDEX oauth_devices_of_grant ON oauth_devices USING btree (grant_id) WHERE (grant_id IS NOT NULL)
table oauth_grants
  id text not null
  user_id text not null
  client_id text not null
  client_name text not null
  account_id text not null
  membership_id text not null
  role text not null
  granted_at timestamp with time zone not null
  expires_at timestamp with time zone not null
  revoked_at timestamp with time zone
  last_used_at timestamp with time zone not null default now()
  constraint oauth_grants_account_id_fkey FOREIGN KEY (account_id) REFERENCES accounts(id)
  constraint oauth_grants_pkey PRIMARY KEY (id)
  constraint oauth_grants_role_check CHECK ((role = ANY (ARRAY['reader'::text, 'editor'::text])))
  constraint oauth_grants_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id)
  CREATE INDEX oauth_grants_end ON oauth_grants USING btree (expires_at)
  CREATE INDEX oauth_grants_of_account ON oauth_grants USING btree (account_id) WHERE (revoked_at IS NULL)
  CREATE INDEX oauth_grants_of_client ON oauth_grants USING btree (client_id) WHERE (revoked_at IS NULL)
  CREATE INDEX oauth_grants_of_user ON oauth_grants USING btree (user_id, client_id, granted_at DESC) WHERE (revoked_at IS NULL)
  CREATE INDEX oauth_grants_unused ON oauth_grants USING btree (last_used_at) WHERE (revoked_at IS NULL)
table oauth_keys
  id text not null
  sealed bytea not null
  created_at timestamp with time zone not null
  constraint oauth_keys_pkey PRIMARY KEY (id)
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
table password_resets
  id text not null
  user_id text not null
  token_hash bytea not null
  expires_at timestamp with time zone not null
  used_at timestamp with time zone
  constraint password_resets_pkey PRIMARY KEY (id)
  constraint password_resets_token_hash_check CHECK ((length(token_hash) = 32))
  constraint password_resets_token_hash_key UNIQUE (token_hash)
  constraint password_resets_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id)
  CREATE INDEX password_resets_end ON password_resets USING btree (expires_at)
  CREATE INDEX password_resets_of_user ON password_resets USING btree (user_id) WHERE (used_at IS NULL)
table schema_migrations
  name text not null
  at timestamp with time zone not null default now()
  oldest text
  constraint schema_migrations_pkey PRIMARY KEY (name)
table sign_in_attempts
  key bytea not null
  failed_at timestamp with time zone[] not null
  expires_at timestamp with time zone not null
  constraint sign_in_attempts_pkey PRIMARY KEY (key)
  CREATE INDEX sign_in_attempts_end ON sign_in_attempts USING btree (expires_at)
table tokens
  id text not null
  user_id text not null
  kind text not null
  name text not null
  hash bytea not null
  last_four text not null
  role_cap text
  account_id text
  created_at timestamp with time zone not null
  expires_at timestamp with time zone not null
  last_used_at timestamp with time zone
  revoked_at timestamp with time zone
  ip text
  constraint tokens_account_id_fkey FOREIGN KEY (account_id) REFERENCES accounts(id)
  constraint tokens_hash_check CHECK ((length(hash) = 32))
  constraint tokens_hash_key UNIQUE (hash)
  constraint tokens_kind_check CHECK ((kind = ANY (ARRAY['session'::text, 'token'::text])))
  constraint tokens_pkey PRIMARY KEY (id)
  constraint tokens_role_cap_check CHECK ((role_cap = ANY (ARRAY['reader'::text, 'editor'::text, 'owner'::text])))
  constraint tokens_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id)
  CREATE INDEX tokens_newest ON tokens USING btree (user_id, id DESC) WHERE ((kind = 'token'::text) AND (revoked_at IS NULL))
  CREATE INDEX tokens_of_account ON tokens USING btree (account_id) WHERE ((account_id IS NOT NULL) AND (revoked_at IS NULL))
  CREATE INDEX tokens_sessions_end ON tokens USING btree (expires_at) WHERE (kind = 'session'::text)
  CREATE INDEX tokens_sessions_newest ON tokens USING btree (user_id, id DESC) WHERE ((kind = 'session'::text) AND (revoked_at IS NULL))
table users
  id text not null
  email text not null
  display_name text not null
  password_hash text
  created_at timestamp with time zone not null default now()
  disabled_at timestamp with time zone
  email_verified_at timestamp with time zone
  signed_in_at timestamp with time zone
  deleted_at timestamp with time zone
  constraint users_email_check CHECK ((email = lower(email)))
  constraint users_email_key UNIQUE (email)
  constraint users_pkey PRIMARY KEY (id)
