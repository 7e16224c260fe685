table accounts
  id text not null
  tier text
  tier_revision bigint not null default 0
  direct_agreement boolean not null default false
  agreement_until timestamp with time zone
  constraint accounts_pkey PRIMARY KEY (id)
  constraint accounts_tier_check CHECK ((tier = ANY (ARRAY['free'::text, 'pro'::text, 'team'::text, 'enterprise'::text])))
  CREATE TRIGGER account_tier_changed AFTER UPDATE OF tier ON accounts FOR EACH ROW WHEN (((old.tier IS DISTINCT FROM new.tier) AND (new.tier IS NOT NULL))) EXECUTE FUNCTION tier_changed()
  CREATE TRIGGER account_tier_set AFTER INSERT ON accounts FOR EACH ROW WHEN ((new.tier IS NOT NULL)) EXECUTE FUNCTION tier_changed()
table adjustments
  id bigint not null identity
  account_id text not null
  at timestamp with time zone not null
  period_start timestamp with time zone not null
  amount bigint not null
  reason text not null
  written_off boolean not null default false
  constraint adjustments_pkey PRIMARY KEY (id)
  constraint adjustments_reason_check CHECK ((reason = ANY (ARRAY['late_usage'::text, 'carried'::text, 'invoiced'::text, 'grace'::text, 'uninvoiced'::text])))
  CREATE INDEX adjustments_account ON adjustments USING btree (account_id, at)
table cancellations
  subscription_id text not null
  account_id text not null
  kind text not null
  step text not null
  asked_at timestamp with time zone not null default now()
  ended_at timestamp with time zone
  released boolean not null default false
  refund_status text
  attempts integer not null default 0
  next_at timestamp with time zone not null
  constraint cancellations_kind_check CHECK ((kind = ANY (ARRAY['annual'::text, 'unpaid'::text, 'duplicate'::text])))
  constraint cancellations_pkey PRIMARY KEY (subscription_id)
  constraint cancellations_refund_status_check CHECK ((refund_status = ANY (ARRAY['under_review'::text, 'refunded'::text, 'denied'::text])))
  constraint cancellations_step_check CHECK ((step = ANY (ARRAY['asked'::text, 'uncertain'::text, 'ended'::text, 'refunding'::text, 'review'::text, 'disputed'::text, 'done'::text, 'denied'::text])))
  CREATE INDEX cancellations_due ON cancellations USING btree (next_at) WHERE (step = ANY (ARRAY['asked'::text, 'uncertain'::text, 'ended'::text, 'refunding'::text]))
table compute_periods
  account_id text not null
  started_at timestamp with time zone not null
  ended_at timestamp with time zone not null
  tier text not null
  constraint compute_periods_check CHECK ((ended_at > started_at))
  constraint compute_periods_pkey PRIMARY KEY (account_id, started_at)
table customers
  account_id text not null
  customer_id text not null
  constraint customers_customer_id_key UNIQUE (customer_id)
  constraint customers_pkey PRIMARY KEY (account_id)
table disputes
  id text not null
  account_id text not null
  subscription_id text
  invoice_id text not null
  payment_id text not null
  outcome text not null
  unanswered boolean not null
  respond_by timestamp with time zone
  amount_cents bigint not null
  reason text not null
  created_at timestamp with time zone not null
  constraint disputes_outcome_check CHECK ((outcome = ANY (ARRAY['inquiry'::text, 'open'::text, 'won'::text, 'lost'::text])))
  constraint disputes_pkey PRIMARY KEY (id)
  CREATE INDEX disputes_invoice ON disputes USING btree (invoice_id)
  CREATE INDEX disputes_undecided ON disputes USING btree (payment_id) WHERE (outcome = ANY (ARRAY['inquiry'::text, 'open'::text]))
table due_customers
  customer_id text not null
  revision bigint not null default nextval('due_customers_revision_seq'::regclass)
  since timestamp with time zone not null default now()
  attempts integer not null default 0
  next_at timestamp with time zone not null default now()
  leased_until timestamp with time zone
  constraint due_customers_pkey PRIMARY KEY (customer_id)
  CREATE INDEX due_customers_next ON due_customers USING btree (next_at)
table due_payments
  payment_id text not null
  revision bigint not null default nextval('due_payments_revision_seq'::regclass)
  since timestamp with time zone not null default now()
  attempts integer not null default 0
  next_at timestamp with time zone not null default now()
  leased_until timestamp with time zone
  constraint due_payments_pkey PRIMARY KEY (payment_id)
  CREATE INDEX due_payments_next ON due_payments USING btree (next_at)
table failed_refunds
  id text not null
  at timestamp with time zone not null default now()
  constraint failed_refunds_pkey PRIMARY KEY (id)
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
table installation
  singleton boolean not null default true
  name text not null
  constraint installation_pkey PRIMARY KEY (singleton)
  constraint installation_singleton_check CHECK (singleton)
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
  paid jsonb
  attempts integer not null default 0
  action_required boolean not null default false
  number text
  tax_cents bigint not null default 0
  pays_plan boolean
  constraint invoices_kind_check CHECK ((kind = ANY (ARRAY['subscription'::text, 'compute'::text, 'proration'::text, 'manual'::text])))
  constraint invoices_pkey PRIMARY KEY (id)
  constraint invoices_status_check CHECK ((status = ANY (ARRAY['open'::text, 'paid'::text, 'void'::text, 'uncollectible'::text])))
  CREATE INDEX invoices_account ON invoices USING btree (account_id, created_at DESC, id DESC)
  CREATE INDEX invoices_paid ON invoices USING btree (subscription_id) WHERE (paid IS NOT NULL)
table kept_answers
  id bytea not null
  request bytea not null
  answer bytea
  at timestamp with time zone not null default now()
  constraint kept_answers_pkey PRIMARY KEY (id)
  CREATE INDEX kept_answers_at ON kept_answers USING btree (at)
table metered_periods
  subscription_id text not null
  started_at timestamp with time zone not null
  ended_at timestamp with time zone not null
  account_id text not null
  customer_id text not null
  tier text not null
  next_at timestamp with time zone not null default '-infinity'::timestamp with time zone
  reported_cents bigint
  due_cents bigint
  invoice_id text
  invoiced_cents bigint
  compared boolean not null default false
  tax_cents bigint
  carried boolean not null default false
  constraint metered_periods_pkey PRIMARY KEY (subscription_id, started_at)
  CREATE INDEX metered_periods_invoiced ON metered_periods USING btree (invoice_id) WHERE (NOT compared)
  CREATE INDEX metered_periods_next ON metered_periods USING btree (next_at)
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
table paid_seats
  subscription_id text not null
  until timestamp with time zone not null
  quantity integer not null
  tier text
  constraint paid_seats_pkey PRIMARY KEY (subscription_id)
table pending_coupons
  account_id text not null
  promotion_code_id text not null
  coupon jsonb not null
  saved_at timestamp with time zone not null
  refused text
  constraint pending_coupons_pkey PRIMARY KEY (account_id)
table period_statements
  account_id text not null
  started_at timestamp with time zone not null
  ended_at timestamp with time zone not null
  tier text not null
  billed boolean not null
  inputs bytea not null
  accrued bigint not null
  allowance bigint not null
  adjustment bigint not null
  due_cents bigint not null
  lines jsonb not null
  frozen_at timestamp with time zone not null
  credit_cents bigint
  constraint period_statements_pkey PRIMARY KEY (account_id, started_at, ended_at, billed)
table plan_changes
  id text not null
  account_id text not null
  subscription_id text not null
  kind text not null
  tier text not null
  cadence text not null
  seats integer not null
  charged_from timestamp with time zone not null
  requested_by jsonb
  step text not null default 'asked'::text
  asked_at timestamp with time zone not null default now()
  attempts integer not null default 0
  next_at timestamp with time zone not null
  constraint plan_changes_pkey PRIMARY KEY (id)
  CREATE INDEX plan_changes_next ON plan_changes USING btree (next_at) WHERE (step = ANY (ARRAY['asked'::text, 'uncertain'::text]))
  CREATE UNIQUE INDEX plan_changes_open ON plan_changes USING btree (subscription_id) WHERE (step = ANY (ARRAY['asked'::text, 'uncertain'::text]))
table provider_attempts
  name text not null
  attempt integer not null
  constraint provider_attempts_pkey PRIMARY KEY (name)
table reconciliations
  name text not null
  done_until timestamp with time zone
  next_at timestamp with time zone not null default '-infinity'::timestamp with time zone
  constraint reconciliations_name_check CHECK ((name = ANY (ARRAY['events'::text, 'customers'::text])))
  constraint reconciliations_pkey PRIMARY KEY (name)
table redeemed_codes
  account_id text not null
  promotion_code_id text not null
  started_at timestamp with time zone not null
  used boolean not null default false
  constraint redeemed_codes_pkey PRIMARY KEY (account_id, promotion_code_id)
table refunds
  subscription_id text not null
  invoice_id text not null
  amount_cents bigint not null
  cash_cents bigint not null
  credit_note_id text
  lines jsonb
  tax_cents bigint not null default 0
  constraint refunds_pkey PRIMARY KEY (subscription_id, invoice_id)
  constraint refunds_subscription_id_fkey FOREIGN KEY (subscription_id) REFERENCES cancellations(subscription_id) ON DELETE CASCADE
table schema_migrations
  name text not null
  at timestamp with time zone not null default now()
  oldest text
  constraint schema_migrations_pkey PRIMARY KEY (name)
table seat_checks
  account_id text not null
  revision bigint not null default nextval('seat_checks_revision_seq'::regclass)
  constraint seat_checks_pkey PRIMARY KEY (account_id)
table spend_limit_alerts
  account_id text not null
  period_start timestamp with time zone not null
  limit_cents bigint not null
  percent integer not null
  at timestamp with time zone not null
  constraint spend_limit_alerts_pkey PRIMARY KEY (account_id, period_start, limit_cents, percent)
table spend_limits
  account_id text not null
  limit_cents bigint not null
  constraint spend_limits_limit_cents_check CHECK ((limit_cents > 0))
  constraint spend_limits_pkey PRIMARY KEY (account_id)
table stripe_events
  id text not null
  type text not null
  created timestamp with time zone not null
  customer_id text
  received_at timestamp with time zone not null default now()
  payment_id text
  constraint stripe_events_pkey PRIMARY KEY (id)
  CREATE INDEX stripe_events_received ON stripe_events USING btree (received_at)
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
  expiring_card text
  superseded_prices text
  end_announced boolean not null default false
  pending jsonb
  constraint subscriptions_cadence_check CHECK ((cadence = ANY (ARRAY['monthly'::text, 'annual'::text])))
  constraint subscriptions_pkey PRIMARY KEY (id)
  CREATE INDEX subscriptions_account ON subscriptions USING btree (account_id, created_at DESC)
table suspensions
  account_id text not null
  needs_plan boolean not null default false
  grace_from timestamp with time zone
  grace_until timestamp with time zone
  stages integer not null default 0
  limit_until timestamp with time zone
  reason text
  revision bigint not null default 0
  changed_at timestamp with time zone
  announced_at timestamp with time zone
  check_at timestamp with time zone not null default '-infinity'::timestamp with time zone
  constraint suspensions_pkey PRIMARY KEY (account_id)
  constraint suspensions_reason_check CHECK ((reason = ANY (ARRAY['free_plan'::text, 'spend_limit'::text])))
  CREATE INDEX suspensions_check ON suspensions USING btree (check_at)
table usage_accounts
  account_id text not null
  frozen_until timestamp with time zone not null
  freeze_at timestamp with time zone not null
  alert_at timestamp with time zone not null
  constraint usage_accounts_pkey PRIMARY KEY (account_id)
  CREATE INDEX usage_accounts_alert ON usage_accounts USING btree (alert_at)
  CREATE INDEX usage_accounts_freeze ON usage_accounts USING btree (freeze_at)
table usage_alerts
  account_id text not null
  period_start timestamp with time zone not null
  percent integer not null
  at timestamp with time zone not null
  constraint usage_alerts_pkey PRIMARY KEY (account_id, period_start, percent)
table usage_events
  interval_id text not null
  seq integer not null
  kind text not null
  service_id text not null
  size text not null
  replicas integer not null
  at timestamp with time zone not null
  received_at timestamp with time zone not null default now()
  constraint usage_events_kind_check CHECK ((kind = ANY (ARRAY['start'::text, 'resize'::text, 'stop'::text, 'heartbeat'::text])))
  constraint usage_events_pkey PRIMARY KEY (interval_id, seq)
table usage_projects
  project_id text not null
  name text not null
  constraint usage_projects_pkey PRIMARY KEY (project_id)
table usage_segments
  interval_id text not null
  seq integer not null
  account_id text not null
  service_id text not null
  service_number bigint not null
  size text not null
  replicas integer not null
  rate bigint not null
  price_version text not null
  started_at timestamp with time zone not null
  ended_at timestamp with time zone
  last_seen_at timestamp with time zone not null
  constraint usage_segments_check CHECK (((ended_at > started_at) AND (date_trunc('second'::text, ended_at) = ended_at)))
  constraint usage_segments_once EXCLUDE USING gist (int8range(service_number, service_number, '[]'::text) WITH =, tstzrange(started_at, ended_at) WITH &&) DEFERRABLE
  constraint usage_segments_pkey PRIMARY KEY (interval_id, seq)
  constraint usage_segments_replicas_check CHECK ((replicas > 0))
  constraint usage_segments_service_number_fkey FOREIGN KEY (service_number) REFERENCES usage_services(number)
  constraint usage_segments_started_at_check CHECK ((date_trunc('second'::text, started_at) = started_at))
  CREATE INDEX usage_segments_account ON usage_segments USING btree (account_id, COALESCE(ended_at, 'infinity'::timestamp with time zone))
  CREATE INDEX usage_segments_newest ON usage_segments USING btree (account_id, started_at DESC, interval_id DESC, seq DESC)
table usage_services
  service_id text not null
  number bigint not null identity
  account_id text not null
  project_id text not null
  type text not null
  name text
  named_at timestamp with time zone
  constraint usage_services_number_key UNIQUE (number)
  constraint usage_services_pkey PRIMARY KEY (service_id)
