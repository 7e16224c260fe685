-- Mails of one queue do not wait for another's (kit/mail). Those of an older version are in the queue without a name.
alter table mails add column queue text not null default '';
drop index mails_due;
create index mails_due on mails (queue, due_at);
