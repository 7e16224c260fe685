-- Requests of devices without a browser (RFC 8628), and what users answered. Of the device code there is the SHA-256,
-- and of the user code, which is short enough to be guessed from a hash, a MAC under a key of the installation.
create table oauth_devices (
  hash bytea primary key check (length(hash) = 32),
  user_code text not null unique,
  client_id text not null,
  scope text[] not null,
  resource text[] not null,
  -- The user of the client's ID token, if it sent one.
  subject text,
  -- The address from which the device asked.
  ip text not null,
  requested_at timestamptz not null,
  expires_at timestamptz not null,
  -- How often the device may ask for tokens; whether it last asked too early.
  interval_seconds int not null,
  polled_at timestamptz,
  polled_early boolean not null default false,
  decided_at timestamptz,
  -- Null in a decision that denies.
  grant_id text,
  -- Set when tokens were issued.
  consumed_at timestamptz
);
create index oauth_devices_end on oauth_devices (expires_at);
create index oauth_devices_of_grant on oauth_devices (grant_id) where grant_id is not null;

-- Whether a client may use the device grant. Not among the grant types of its metadata: a version that does not know the
-- grant would refuse the whole client.
alter table oauth_clients add column device_grant boolean not null default false;
