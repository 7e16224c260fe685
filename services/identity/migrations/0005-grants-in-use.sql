-- When a token of the grant was last issued or looked up: what is not used for longer than a refresh token lasts has
-- ended at the provider, whether that told us or not. Grants that are there already count from now.
alter table oauth_grants add column last_used_at timestamptz not null default now();
create index oauth_grants_unused on oauth_grants (last_used_at) where revoked_at is null;
