-- Requests that write use this table.
alter table outbox add column next text not null default '';
