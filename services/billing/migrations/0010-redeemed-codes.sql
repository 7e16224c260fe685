-- The promo codes that accounts redeemed on subscriptions: each counts once, for its whole term.
create table redeemed_codes (
  account_id text not null,
  promotion_code_id text not null,
  -- When it was first redeemed: its term is counted from then.
  started_at timestamptz not null,
  -- Whether an invoice was reduced by it: a code for one time is spent.
  used boolean not null default false,
  primary key (account_id, promotion_code_id)
);
