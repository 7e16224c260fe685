-- Aliases below a project are looked through whenever one is written there.
create index variables_aliases on variables (scope_id) include (name, alias_target) where alias_target is not null;
