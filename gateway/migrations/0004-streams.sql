-- The streams that callers have open, over all gateways. A place is free past its time: whoever held it died.
-- Unlogged: losing it in a crash of the database harms nobody.
create unlogged table streams (
  who text not null,
  place integer not null,
  holder text not null,
  held_until timestamptz not null,
  primary key (who, place)
);
create index streams_held_until on streams (held_until);
