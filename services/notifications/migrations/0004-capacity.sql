-- What was announced of the disk and the memory of each node.
create table capacity_levels (
  node text not null,
  resource text not null check (resource in ('disk', 'memory')),
  level text not null check (level in ('ok', 'low', 'urgent')),
  changed_at timestamptz not null default now(),
  primary key (node, resource)
);
