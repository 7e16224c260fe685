-- Since when a service has its name: of two that had the same one it is the later one's. Null where the deployer did not
-- say. A service whose name another one got, or that is being renamed, has none until its own is known.
alter table scopes add column named_at timestamptz;
