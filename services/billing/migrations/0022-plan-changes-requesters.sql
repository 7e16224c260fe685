-- Who requested a change is needed until the audit record is written, and then only kept there.
alter table plan_changes alter column requested_by drop not null;
update plan_changes set requested_by = null where step in ('done', 'refused');
