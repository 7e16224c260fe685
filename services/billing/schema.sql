table accounts
  id text not null
  tier text
  tier_revision bigint not null default 0
  direct_agreement boolean not null default false
  constraint accounts_pkey PRIMARY KEY (id)
  constraint accounts_tier_check CHECK ((tier = ANY (ARRAY['free'::text, 'pro'::text, 'team'::text, 'enterprise'::text])))
table customers
  account_id text not null
  customer_id text not null
  constraint customers_customer_id_key UNIQUE (customer_id)
  constraint customers_pkey PRIMARY KEY (account_id)
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
table invoices
  id text not null
  account_id text not null
  subscription_id text
  kind text not null
  status text not null
  period_start timestamp with time zone not null
  period_end timestamp with time zone not null
  total_cents bigint not null
  pdf_url text
  hosted_url text
  created_at timestamp with time zone not null
  next_attempt timestamp with time zone
  constraint invoices_kind_check CHECK ((kind = ANY (ARRAY['subscription'::text, 'compute'::text, 'proration'::text, 'manual'::text])))
  constraint invoices_pkey PRIMARY KEY (id)
  constraint invoices_status_check CHECK ((status = ANY (ARRAY['open'::text, 'paid'::text, 'void'::text, 'uncollectible'::text])))
  CREATE INDEX invoices_account ON invoices USING btree (account_id, created_at DESC, id DESC)
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
table pending_coupons
  account_id text not null
  promotion_code_id text not null
  coupon jsonb not null
  constraint pending_coupons_pkey PRIMARY KEY (account_id)
table schema_migrations
  name text not null
  at timestamp with time zone not null default now()
  constraint schema_migrations_pkey PRIMARY KEY (name)
table stripe_events
  id text not null
  type text not null
  created timestamp with time zone not null
  customer_id text
  received_at timestamp with time zone not null default now()
  processed_at timestamp with time zone
  attempts integer not null default 0
  next_at timestamp with time zone not null default now()
  constraint stripe_events_pkey PRIMARY KEY (id)
  CREATE INDEX stripe_events_due ON stripe_events USING btree (next_at) WHERE (processed_at IS NULL)
  CREATE INDEX stripe_events_processed ON stripe_events USING btree (processed_at) WHERE (processed_at IS NOT NULL)
table subscriptions
  id text not null
  account_id text not null
  status text not null
  tier text not null
  cadence text not null
  price_version text not null
  created_at timestamp with time zone not null
  current_period_end timestamp with time zone not null
  compute_start timestamp with time zone
  compute_end timestamp with time zone
  cancel_at_period_end boolean not null
  coupon jsonb
  items jsonb not null
  payment_method jsonb
  constraint subscriptions_cadence_check CHECK ((cadence = ANY (ARRAY['monthly'::text, 'annual'::text])))
  constraint subscriptions_pkey PRIMARY KEY (id)
  CREATE INDEX subscriptions_account ON subscriptions USING btree (account_id, created_at DESC)
