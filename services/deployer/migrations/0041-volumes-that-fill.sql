-- Until when no more is said of an addon whose volume is nearly full: it is growing, or its users know.
alter table services add column addon_filling_quiet_until timestamptz;
