-- Images that builds of an account pushed and that are kept. A trigger writes it, so that a build that another
-- version of the deployer finishes counts as well.
create table built_images (
  account_id text not null,
  digest text not null,
  -- Whose build it was; the service may be gone.
  service_id text not null,
  primary key (account_id, digest)
);

create function image_built() returns trigger language plpgsql set search_path from current as $$
begin
  insert into built_images (account_id, digest, service_id)
  select s.account_id, substring(new.artifact from '@(sha256:[0-9a-f]{64})$'), s.id
  from services s where s.id = new.service_id and new.artifact ~ '^image:.*@sha256:[0-9a-f]{64}$'
  on conflict do nothing;
  return null;
end $$;
create trigger image_built after insert or update of artifact on deployments
  for each row when (new.build_id is not null and new.artifact is not null) execute function image_built();

-- After the trigger, so that none that ends meanwhile is missed.
insert into built_images (account_id, digest, service_id)
select s.account_id, substring(d.artifact from '@(sha256:[0-9a-f]{64})$'), s.id
from deployments d join services s on s.id = d.service_id
where d.build_id is not null and d.artifact ~ '^image:.*@sha256:[0-9a-f]{64}$'
on conflict do nothing;

-- Who runs an image, by whatever name.
create index deployments_digest on deployments (substring(artifact from '@(sha256:[0-9a-f]{64})$'))
  where artifact is not null;
