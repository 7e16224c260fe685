-- Whether no invoice charges the period, and the next subscription does.
alter table metered_periods add column carried boolean not null default false;
