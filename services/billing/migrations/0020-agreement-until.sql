-- When the last agreement with the operator ended: what ran before is paid by it.
alter table accounts add column agreement_until timestamptz;
