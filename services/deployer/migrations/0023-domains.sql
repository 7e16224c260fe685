-- The host names of users at which services answer. `proved_at`: since when the host is this domain's, which only one
-- domain of the installation can have; it ends no earlier than the host is no longer served for it.
create table domains (
  id text primary key,
  account_id text not null,
  service_id text not null references services (id) on delete cascade,
  host text not null,
  redirect_to text,
  state text not null default 'pending_dns'
    check (state in ('pending_dns', 'verifying', 'issuing', 'active', 'failed')),
  reason text,
  -- What was found at the last look-up: "proof" and "address".
  found text[] not null default '{}',
  proved_at timestamptz,
  -- Since when its proof is no longer found, while it is still served.
  lost_at timestamptz,
  -- Whether another account has proved the host meanwhile.
  contested boolean not null default false,
  activated_at timestamptz,
  created_at timestamptz not null default now(),
  checked_at timestamptz,
  deleting_at timestamptz,
  -- Look-ups in a row that changed nothing: they grow rarer.
  checks integer not null default 0,
  due_at timestamptz not null default now(),
  -- Grows with each taking and each request, so that what a slow process found does not overwrite what came later.
  turn bigint not null default 0
);
create unique index domains_proved on domains (host) where proved_at is not null;
create unique index domains_host_of_account on domains (account_id, host) where deleting_at is null;
create index domains_service on domains (service_id, id);
create index domains_host on domains (host);
create index domains_due on domains (due_at);

-- A domain that was proved before its service had a release is served soon after it has one.
create function domains_become_due() returns trigger language plpgsql as $$
begin
  update domains set due_at = now(), checks = 0 where service_id = new.id;
  return null;
end $$;
create trigger service_first_live after update of live_version on services for each row
  when (old.live_version is null and new.live_version is not null) execute function domains_become_due();
