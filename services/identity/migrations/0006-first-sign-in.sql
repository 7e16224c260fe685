-- Whether the first sign-in is still to come: it is from no new network. Earlier users count as having signed in.
alter table users add column signed_in_at timestamptz default now();
alter table users alter column signed_in_at drop default;
