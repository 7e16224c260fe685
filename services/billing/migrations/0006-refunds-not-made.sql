alter table cancellations drop constraint cancellations_refund_status_check;
alter table cancellations add constraint cancellations_refund_status_check
  check (refund_status in ('under_review', 'refunded', 'denied'));

-- Refunds that the bank could not make; owners were told of each.
create table failed_refunds (
  id text primary key,
  at timestamptz not null default now()
);
