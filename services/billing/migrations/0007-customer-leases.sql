-- Until when nobody else reads a customer that is being read.
alter table due_customers add column leased_until timestamptz;
