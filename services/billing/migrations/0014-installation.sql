-- The name at the payment provider of the installation that this database belongs to. It never changes: what is sold has
-- the name. One of before has no name.
create table installation (
  singleton boolean primary key default true check (singleton),
  name text not null
);
insert into installation (name) select '' where exists (select from customers);
