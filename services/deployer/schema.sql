table accounts
  id text not null
  tier text
  provisioned_at timestamp with time zone
  tier_revision bigint not null default 0
  deleted_at timestamp with time zone
  suspended text
  suspension_revision bigint not null default 0
  constraint accounts_pkey PRIMARY KEY (id)
table backup_uploads
  id text not null
  account_id text not null
  service_id text not null
  created_at timestamp with time zone not null default now()
  taken_until timestamp with time zone
  constraint backup_uploads_pkey PRIMARY KEY (id)
  CREATE INDEX backup_uploads_created ON backup_uploads USING btree (created_at)
  CREATE INDEX backup_uploads_service ON backup_uploads USING btree (service_id)
table backups
  id text not null
  account_id text not null
  service_id text not null
  type text not null
  trigger text not null
  night date
  status text not null default 'running'::text
  size_bytes bigint
  object text
  version text
  failure text
  requested_by text
  started_at timestamp with time zone not null default now()
  finished_at timestamp with time zone
  deleting_at timestamp with time zone
  due_at timestamp with time zone default now()
  attempts integer not null default 0
  turn bigint not null default 0
  kept_until timestamp with time zone
  service_name text
  environment_name text
  project_name text
  as_of timestamp with time zone
  constraint backups_as_of CHECK (((as_of IS NULL) OR (object IS NULL) OR (object ~~ '%.at-%'::text)))
  constraint backups_pkey PRIMARY KEY (id)
  constraint backups_status_check CHECK ((status = ANY (ARRAY['running'::text, 'succeeded'::text, 'failed'::text])))
  constraint backups_trigger_check CHECK ((trigger = ANY (ARRAY['manual'::text, 'nightly'::text, 'uploaded'::text]))) NOT VALID
  CREATE INDEX backups_due ON backups USING btree (due_at) WHERE (due_at IS NOT NULL)
  CREATE INDEX backups_kept ON backups USING btree (account_id, id) WHERE (kept_until IS NOT NULL)
  CREATE UNIQUE INDEX backups_night ON backups USING btree (service_id, night) WHERE (night IS NOT NULL)
  CREATE UNIQUE INDEX backups_running ON backups USING btree (service_id) WHERE (status = 'running'::text)
  CREATE INDEX backups_service ON backups USING btree (service_id, id)
  CREATE TRIGGER backup_shown AFTER INSERT ON backups FOR EACH ROW EXECUTE FUNCTION backup_shown()
  CREATE TRIGGER backup_shown_otherwise AFTER UPDATE ON backups FOR EACH ROW WHEN (((old.status IS DISTINCT FROM new.status) OR (old.deleting_at IS DISTINCT FROM new.deleting_at))) EXECUTE FUNCTION backup_shown()
table build_logs
  deployment_id text not null
  seq integer not null
  text text not null
  position bigint not null identity
  constraint build_logs_deployment_id_fkey FOREIGN KEY (deployment_id) REFERENCES deployments(id) ON DELETE CASCADE
  constraint build_logs_pkey PRIMARY KEY (deployment_id, seq)
  CREATE INDEX build_logs_position ON build_logs USING btree (deployment_id, "position")
  CREATE TRIGGER build_log_grew AFTER INSERT ON build_logs FOR EACH ROW EXECUTE FUNCTION build_log_grew()
table built_images
  account_id text not null
  digest text not null
  service_id text not null
  constraint built_images_pkey PRIMARY KEY (account_id, digest)
table deployment_states
  deployment_id text not null
  seq integer not null
  moved boolean not null
  row jsonb not null
  constraint deployment_states_deployment_id_fkey FOREIGN KEY (deployment_id) REFERENCES deployments(id) ON DELETE CASCADE
  constraint deployment_states_pkey PRIMARY KEY (deployment_id, seq)
table deployments
  id text not null
  service_id text not null
  version integer not null
  status text not null
  config jsonb not null
  source jsonb not null
  image text
  artifact text
  build_id text
  archive_ref text
  branch text
  commit text
  build_stage text
  errors jsonb not null default '[]'::jsonb
  warnings jsonb not null default '[]'::jsonb
  created_at timestamp with time zone not null default now()
  build_started_at timestamp with time zone
  built_at timestamp with time zone
  apply_started_at timestamp with time zone
  applied_at timestamp with time zone
  healthy_at timestamp with time zone
  finished_at timestamp with time zone
  leftover boolean not null default false
  awaits text[]
  awaits_until timestamp with time zone
  archive_digest text
  built_version integer
  release_command text
  release_started_at timestamp with time zone
  release_finished_at timestamp with time zone
  release_left boolean not null default false
  buildpacks jsonb
  created_by jsonb
  constraint deployments_pkey PRIMARY KEY (id)
  constraint deployments_service_id_fkey FOREIGN KEY (service_id) REFERENCES services(id)
  constraint deployments_status_check CHECK ((status = ANY (ARRAY['queued'::text, 'building'::text, 'built'::text, 'applied'::text, 'failed'::text, 'superseded'::text])))
  constraint deployments_version UNIQUE (service_id, version)
  CREATE UNIQUE INDEX deployments_active ON deployments USING btree (service_id) WHERE (status = ANY (ARRAY['queued'::text, 'building'::text, 'built'::text]))
  CREATE INDEX deployments_digest ON deployments USING btree ("substring"(artifact, '@(sha256:[0-9a-f]{64})$'::text)) WHERE (artifact IS NOT NULL)
  CREATE INDEX deployments_kept ON deployments USING btree (service_id, version) WHERE ((status = 'applied'::text) AND (artifact IS NOT NULL) AND (NOT leftover))
  CREATE INDEX deployments_leftover ON deployments USING btree (service_id) WHERE leftover
  CREATE INDEX deployments_release_left ON deployments USING btree (service_id) WHERE release_left
  CREATE INDEX deployments_were_live ON deployments USING btree (service_id, version) WHERE (healthy_at IS NOT NULL)
  CREATE TRIGGER deployment_changed AFTER INSERT OR DELETE OR UPDATE ON deployments FOR EACH ROW EXECUTE FUNCTION deployment_changed()
  CREATE TRIGGER deployment_shown AFTER INSERT ON deployments FOR EACH ROW EXECUTE FUNCTION deployment_shown()
  CREATE TRIGGER deployment_shown_otherwise AFTER UPDATE ON deployments FOR EACH ROW WHEN ((((((((((old.status IS DISTINCT FROM new.status) OR (old.build_stage IS DISTINCT FROM new.build_stage)) OR (old.image IS DISTINCT FROM new.image)) OR (old.branch IS DISTINCT FROM new.branch)) OR (old.commit IS DISTINCT FROM new.commit)) OR (old.source IS DISTINCT FROM new.source)) OR (old.config IS DISTINCT FROM new.config)) OR (old.healthy_at IS DISTINCT FROM new.healthy_at)) OR (old.errors IS DISTINCT FROM new.errors))) EXECUTE FUNCTION deployment_shown()
  CREATE TRIGGER image_built AFTER INSERT OR UPDATE OF artifact ON deployments FOR EACH ROW WHEN (((new.build_id IS NOT NULL) AND (new.artifact IS NOT NULL))) EXECUTE FUNCTION image_built()
table domains
  id text not null
  account_id text not null
  service_id text not null
  host text not null
  redirect_to text
  state text not null default 'pending_dns'::text
  reason text
  found text[] not null default '{}'::text[]
  proved_at timestamp with time zone
  lost_at timestamp with time zone
  contested boolean not null default false
  activated_at timestamp with time zone
  created_at timestamp with time zone not null default now()
  checked_at timestamp with time zone
  deleting_at timestamp with time zone
  checks integer not null default 0
  due_at timestamp with time zone not null default now()
  turn bigint not null default 0
  constraint domains_pkey PRIMARY KEY (id)
  constraint domains_service_id_fkey FOREIGN KEY (service_id) REFERENCES services(id) ON DELETE CASCADE
  constraint domains_state_check CHECK ((state = ANY (ARRAY['pending_dns'::text, 'verifying'::text, 'issuing'::text, 'active'::text, 'failed'::text])))
  CREATE INDEX domains_due ON domains USING btree (due_at)
  CREATE INDEX domains_host ON domains USING btree (host)
  CREATE UNIQUE INDEX domains_host_of_account ON domains USING btree (account_id, host) WHERE (deleting_at IS NULL)
  CREATE UNIQUE INDEX domains_proved ON domains USING btree (host) WHERE (proved_at IS NOT NULL)
  CREATE INDEX domains_service ON domains USING btree (service_id, id)
table environment_changes
  environment_id text not null
  service_id text not null
  xid bigint not null default ((pg_current_xact_id())::text)::bigint
  at timestamp with time zone not null default clock_timestamp()
  CREATE INDEX environment_changes_at ON environment_changes USING btree (at)
  CREATE INDEX environment_changes_of ON environment_changes USING btree (environment_id, xid)
table environments
  id text not null
  account_id text not null
  project_id text not null
  name text not null
  created_at timestamp with time zone not null default now()
  deleting_at timestamp with time zone
  constraint environments_name UNIQUE (project_id, name)
  constraint environments_pkey PRIMARY KEY (id)
  constraint environments_project_id_fkey FOREIGN KEY (project_id) REFERENCES projects(id)
  CREATE INDEX environments_page ON environments USING btree (project_id, id)
  CREATE TRIGGER environment_ends AFTER UPDATE OF deleting_at ON environments FOR EACH ROW EXECUTE FUNCTION environment_ends()
  CREATE TRIGGER environment_removed AFTER DELETE ON environments FOR EACH ROW EXECUTE FUNCTION remember_removed()
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
table metric_counters
  service_id text not null
  measured_at timestamp with time zone not null
  counters jsonb not null
  constraint metric_counters_pkey PRIMARY KEY (service_id)
  constraint metric_counters_service_id_fkey FOREIGN KEY (service_id) REFERENCES services(id) ON DELETE CASCADE
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
table projects
  id text not null
  account_id text not null
  name text not null
  created_at timestamp with time zone not null default now()
  deleting_at timestamp with time zone
  constraint projects_name UNIQUE (account_id, name)
  constraint projects_pkey PRIMARY KEY (id)
  CREATE INDEX projects_page ON projects USING btree (account_id, id)
table proofs
  night date not null
  backup_id text not null
  service_id text not null
  environment_id text not null
  type text not null
  status text not null default 'running'::text
  counted bigint
  failure text
  started_at timestamp with time zone not null default now()
  finished_at timestamp with time zone
  due_at timestamp with time zone default now()
  attempts integer not null default 0
  turn bigint not null default 0
  constraint proofs_pkey PRIMARY KEY (night)
  constraint proofs_status_check CHECK ((status = ANY (ARRAY['running'::text, 'succeeded'::text, 'failed'::text])))
  CREATE INDEX proofs_backup ON proofs USING btree (backup_id, night)
  CREATE INDEX proofs_due ON proofs USING btree (due_at) WHERE (due_at IS NOT NULL)
  CREATE INDEX proofs_service ON proofs USING btree (service_id, night)
  CREATE TRIGGER proof_shown AFTER UPDATE ON proofs FOR EACH ROW WHEN ((old.status IS DISTINCT FROM new.status)) EXECUTE FUNCTION backup_shown()
table registries
  id text not null
  account_id text not null
  host text not null
  username text not null
  token bytea not null
  created_at timestamp with time zone not null default now()
  rotated_at timestamp with time zone
  constraint registries_host UNIQUE (account_id, host)
  constraint registries_pkey PRIMARY KEY (id)
table removed
  id text not null
  removed_at timestamp with time zone not null default now()
  constraint removed_pkey PRIMARY KEY (id)
table restores
  service_id text not null
  backup_id text not null
  status text not null default 'running'::text
  failure text
  started_at timestamp with time zone not null default now()
  finished_at timestamp with time zone
  due_at timestamp with time zone default now()
  attempts integer not null default 0
  turn bigint not null default 0
  constraint restores_pkey PRIMARY KEY (service_id)
  constraint restores_service_id_fkey FOREIGN KEY (service_id) REFERENCES services(id) ON DELETE CASCADE
  constraint restores_status_check CHECK ((status = ANY (ARRAY['running'::text, 'succeeded'::text, 'failed'::text])))
  CREATE INDEX restores_due ON restores USING btree (due_at) WHERE (due_at IS NOT NULL)
  CREATE TRIGGER restore_shown AFTER INSERT ON restores FOR EACH ROW EXECUTE FUNCTION backup_shown()
  CREATE TRIGGER restore_shown_otherwise AFTER UPDATE ON restores FOR EACH ROW WHEN ((((old.status IS DISTINCT FROM new.status) OR (old.backup_id IS DISTINCT FROM new.backup_id)) OR (old.started_at IS DISTINCT FROM new.started_at))) EXECUTE FUNCTION backup_shown()
table run_logs
  run_id text not null
  seq integer not null
  text text not null
  position bigint not null identity
  constraint run_logs_pkey PRIMARY KEY (run_id, seq)
  constraint run_logs_run_id_fkey FOREIGN KEY (run_id) REFERENCES runs(id) ON DELETE CASCADE
  CREATE INDEX run_logs_position ON run_logs USING btree (run_id, "position")
  CREATE TRIGGER run_log_grew AFTER INSERT ON run_logs FOR EACH ROW EXECUTE FUNCTION run_log_grew()
table runs
  id text not null
  account_id text not null
  service_id text not null
  command text
  trigger text not null
  scheduled_for timestamp with time zone
  timeout_seconds integer not null
  status text not null default 'queued'::text
  exit_code integer
  message text
  version integer not null
  requested_by text
  created_at timestamp with time zone not null default now()
  started_at timestamp with time zone
  finished_at timestamp with time zone
  due_at timestamp with time zone default now()
  turn bigint not null default 0
  constraint runs_pkey PRIMARY KEY (id)
  constraint runs_service_id_fkey FOREIGN KEY (service_id) REFERENCES services(id) ON DELETE CASCADE
  constraint runs_status_check CHECK ((status = ANY (ARRAY['queued'::text, 'running'::text, 'succeeded'::text, 'failed'::text, 'canceled'::text, 'timed_out'::text, 'lost'::text])))
  constraint runs_trigger_check CHECK ((trigger = ANY (ARRAY['manual'::text, 'schedule'::text])))
  CREATE INDEX runs_active ON runs USING btree (account_id, service_id) WHERE (status = ANY (ARRAY['queued'::text, 'running'::text]))
  CREATE INDEX runs_due ON runs USING btree (due_at) WHERE (due_at IS NOT NULL)
  CREATE UNIQUE INDEX runs_scheduled ON runs USING btree (service_id, scheduled_for) WHERE (scheduled_for IS NOT NULL)
  CREATE INDEX runs_service ON runs USING btree (service_id, id)
  CREATE TRIGGER run_changed AFTER UPDATE ON runs FOR EACH ROW WHEN ((old.status IS DISTINCT FROM new.status)) EXECUTE FUNCTION run_changed()
  CREATE TRIGGER run_shown AFTER INSERT ON runs FOR EACH ROW EXECUTE FUNCTION run_shown()
  CREATE TRIGGER run_shown_otherwise AFTER UPDATE ON runs FOR EACH ROW WHEN ((old.status IS DISTINCT FROM new.status)) EXECUTE FUNCTION run_shown()
table schedules
  service_id text not null
  next_at timestamp with time zone not null
  constraint schedules_pkey PRIMARY KEY (service_id)
  constraint schedules_service_id_fkey FOREIGN KEY (service_id) REFERENCES services(id) ON DELETE CASCADE
  CREATE INDEX schedules_next ON schedules USING btree (next_at)
table schema_migrations
  name text not null
  at timestamp with time zone not null default now()
  oldest text
  constraint schema_migrations_pkey PRIMARY KEY (name)
table service_metrics
  service_id text not null
  slot smallint not null
  minute timestamp with time zone not null
  cpu_ms double precision
  covered_ms double precision
  memory bigint
  replicas integer
  restarts integer
  network_in bigint
  network_out bigint
  statuses integer[]
  latencies integer[]
  storage_used bigint
  connections integer
  constraint service_metrics_pkey PRIMARY KEY (service_id, slot)
  constraint service_metrics_service_id_fkey FOREIGN KEY (service_id) REFERENCES services(id) ON DELETE CASCADE
table services
  id text not null
  account_id text not null
  project_id text not null
  environment_id text not null
  name text not null
  type text not null
  source jsonb not null
  config jsonb not null
  staged boolean not null
  staged_archive text
  created_at timestamp with time zone not null default now()
  deleting_at timestamp with time zone
  next_version integer not null default 1
  live_version integer
  variables_revision integer not null default 0
  fingerprint text
  applied_revision integer
  pending_variables boolean not null default false
  dirty_at timestamp with time zone
  dirty_since timestamp with time zone
  runtime_state text
  runtime_reason text
  runtime_message text
  serving_version integer
  url text
  addon_state text
  addon_message text
  addon_revision bigint not null default 0
  addon_secret bytea
  applied_variables bytea
  addon_port integer
  addon_next_secret bytea
  addon_rotated_at timestamp with time zone
  usage_at timestamp with time zone
  rolls integer not null default 0
  staged_image text
  staged_digest text
  unhealthy boolean not null default false
  dangling text[] not null default '{}'::text[]
  kept_version integer
  config_revision integer not null default 0
  object_name text
  named_at timestamp with time zone
  available integer
  suspended text
  addon_engine text
  addon_primary text
  addon_filling_quiet_until timestamp with time zone
  addon_pooler_revision integer
  addon_pooler_until timestamp with time zone
  constraint services_addon_state_check CHECK ((addon_state = ANY (ARRAY['provisioning'::text, 'ready'::text, 'failed'::text])))
  constraint services_environment_id_fkey FOREIGN KEY (environment_id) REFERENCES environments(id)
  constraint services_name UNIQUE (environment_id, name)
  constraint services_pkey PRIMARY KEY (id)
  constraint services_project_id_fkey FOREIGN KEY (project_id) REFERENCES projects(id)
  constraint services_type_check CHECK ((type = ANY (ARRAY['web'::text, 'worker'::text, 'cron'::text, 'postgres'::text, 'redis'::text]))) NOT VALID
  CREATE INDEX services_page ON services USING btree (environment_id, id)
  CREATE INDEX services_project ON services USING btree (project_id)
  CREATE INDEX services_unfinished ON services USING btree (id) WHERE ((deleting_at IS NOT NULL) OR (addon_state = ANY (ARRAY['provisioning'::text, 'failed'::text])) OR (dirty_at IS NOT NULL))
  CREATE TRIGGER service_configured BEFORE UPDATE OF config ON services FOR EACH ROW WHEN ((old.config <> new.config)) EXECUTE FUNCTION service_configured()
  CREATE TRIGGER service_first_live AFTER UPDATE OF live_version ON services FOR EACH ROW WHEN (((old.live_version IS NULL) AND (new.live_version IS NOT NULL))) EXECUTE FUNCTION domains_become_due()
  CREATE TRIGGER service_object_name BEFORE INSERT ON services FOR EACH ROW EXECUTE FUNCTION service_object_name()
  CREATE TRIGGER service_removed AFTER DELETE ON services FOR EACH ROW EXECUTE FUNCTION remember_removed()
  CREATE TRIGGER service_shown AFTER INSERT OR DELETE ON services FOR EACH ROW EXECUTE FUNCTION service_shown()
  CREATE TRIGGER service_shown_otherwise AFTER UPDATE ON services FOR EACH ROW WHEN ((((((((((((((((old.name IS DISTINCT FROM new.name) OR (old.source IS DISTINCT FROM new.source)) OR (old.config IS DISTINCT FROM new.config)) OR (old.staged IS DISTINCT FROM new.staged)) OR (old.deleting_at IS DISTINCT FROM new.deleting_at)) OR (old.live_version IS DISTINCT FROM new.live_version)) OR (old.pending_variables IS DISTINCT FROM new.pending_variables)) OR (old.runtime_state IS DISTINCT FROM new.runtime_state)) OR (old.runtime_message IS DISTINCT FROM new.runtime_message)) OR (old.serving_version IS DISTINCT FROM new.serving_version)) OR (old.available IS DISTINCT FROM new.available)) OR (old.url IS DISTINCT FROM new.url)) OR (old.addon_state IS DISTINCT FROM new.addon_state)) OR (old.addon_message IS DISTINCT FROM new.addon_message)) OR (old.addon_rotated_at IS DISTINCT FROM new.addon_rotated_at))) EXECUTE FUNCTION service_shown()
  CREATE TRIGGER service_suspended AFTER UPDATE OF suspended ON services FOR EACH ROW WHEN ((old.suspended IS DISTINCT FROM new.suspended)) EXECUTE FUNCTION service_shown()
table usage_intervals
  id text not null
  service_id text not null
  account_id text not null
  project_id text not null
  environment_id text not null
  type text not null
  size text not null
  replicas integer not null
  started_at timestamp with time zone not null
  seen_at timestamp with time zone not null
  heartbeat_at timestamp with time zone not null
  seq integer not null default 0
  constraint usage_intervals_pkey PRIMARY KEY (id)
  constraint usage_intervals_replicas_check CHECK ((replicas > 0))
  constraint usage_intervals_service UNIQUE (service_id)
  CREATE INDEX usage_intervals_heartbeat ON usage_intervals USING btree (heartbeat_at)
table work
  service_id text not null
  next_at timestamp with time zone
  lease_owner integer
  lease_until timestamp with time zone
  constraint work_pkey PRIMARY KEY (service_id)
  constraint work_service_id_fkey FOREIGN KEY (service_id) REFERENCES services(id) ON DELETE CASCADE
  CREATE INDEX work_lease ON work USING btree (lease_until) WHERE (lease_owner IS NOT NULL)
  CREATE INDEX work_next ON work USING btree (next_at) WHERE (next_at IS NOT NULL)
