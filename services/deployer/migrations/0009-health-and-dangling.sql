-- The release was unhealthy and has not run as it should since, whatever state it went through.
alter table services add column unhealthy boolean not null default false;
update services set unhealthy = true where runtime_state in ('degraded', 'crashed');
-- The variables that did not resolve when the service was last compared.
alter table services add column dangling text[] not null default '{}';
