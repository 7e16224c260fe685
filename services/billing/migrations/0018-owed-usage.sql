-- `grace`: what ran beyond the allowance after a plan had ended; `uninvoiced`: compute of a subscription that the provider
-- ended without an invoice. Both count in the next period that is billed.
alter table adjustments drop constraint adjustments_reason_check,
  add constraint adjustments_reason_check check (reason in ('late_usage', 'carried', 'invoiced', 'grace', 'uninvoiced'));
