-- Payments that customers dispute at their bank, as the payment provider reports them.
create table disputes (
  id text primary key,
  account_id text not null,
  subscription_id text,
  invoice_id text not null,
  payment_id text not null,
  outcome text not null check (outcome in ('inquiry', 'open', 'won', 'lost')),
  -- Whether the operator has to answer it, until respond_by.
  unanswered boolean not null,
  respond_by timestamptz,
  amount_cents bigint not null,
  reason text not null,
  created_at timestamptz not null
);
create index disputes_undecided on disputes (payment_id) where outcome in ('inquiry', 'open');
create index disputes_invoice on disputes (invoice_id);

-- A refund waits at the step `disputed` until the bank has decided. The version before this leaves such a cancellation as
-- it is.
alter table cancellations drop constraint cancellations_step_check;
alter table cancellations add constraint cancellations_step_check
  check (step in ('asked', 'uncertain', 'ended', 'refunding', 'review', 'disputed', 'done', 'denied'));
