-- Whether an invoice asks for a plan; null of those that the version before recorded, where the kind says it.
alter table invoices add column pays_plan boolean;
