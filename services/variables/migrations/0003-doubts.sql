-- Scopes that are being deleted, as far as was announced: the deployer is asked before anything of them is answered.
create table doubts (
  scope_id text primary key,
  at timestamptz not null default now()
);
