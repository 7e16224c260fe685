-- Whether the end of a subscription was announced before the payment provider reported it: it is announced once.
alter table subscriptions add column end_announced boolean not null default false;
