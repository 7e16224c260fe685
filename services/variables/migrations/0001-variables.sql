-- The scope tree, a projection of the deployer's projects, environments and services. A deleted scope
-- keeps its row, so that nothing that arrives late brings it back.
create table scopes (
  id text primary key,
  account_id text not null,
  -- The project of an environment, the environment of a service.
  parent_id text,
  kind text not null check (kind in ('project', 'environment', 'service')),
  name text,
  type text,
  -- Grows with every change of what the scope contributes to resolved sets.
  revision bigint not null default 0,
  -- Of the variables stored in the scope: how many, bytes of names and literals, how many are aliases or
  -- connections, and the largest literal. They bound the size of resolved sets without reading rows.
  variables integer not null default 0,
  bytes integer not null default 0,
  refs integer not null default 0,
  widest integer not null default 0,
  -- Of an environment: the largest key that an addon in it publishes.
  widest_key integer not null default 0,
  -- Of a managed addon: whether it is provisioned, and the revision of its keys.
  ready boolean not null default false,
  keys_revision bigint not null default 0,
  deleted_at timestamptz,
  check (kind = 'service' or (name is null and type is null)),
  check ((parent_id is null) = (kind = 'project'))
);
create unique index scopes_child on scopes (parent_id, name) where deleted_at is null;

-- One data key for each account; the primary key is what keeps a second one away.
create table data_keys (
  account_id text primary key,
  kek_id text not null,
  wrapped bytea not null
);

create table variables (
  scope_id text not null,
  name text not null,
  id text not null,
  -- Revision of the scope that wrote the row.
  revision bigint not null,
  sensitive boolean not null,
  -- Exactly one source: a sealed literal and the bytes of its plaintext, a connection, or an alias.
  sealed bytea,
  size integer not null default 0,
  connection_service text,
  connection_key text,
  alias_target text,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  primary key (scope_id, name),
  check (num_nonnulls(sealed, connection_service, alias_target) = 1),
  check ((connection_service is null) = (connection_key is null)),
  check (sealed is not null or (not sensitive and size = 0))
);
create unique index variables_newest on variables (scope_id, id desc);
-- Ciphertext does not compress.
alter table variables alter column sealed set storage external;

-- What managed addons publish, sealed like a literal.
create table addon_keys (
  service_id text not null,
  key text not null,
  sensitive boolean not null,
  sealed bytea not null,
  size integer not null,
  primary key (service_id, key)
);
