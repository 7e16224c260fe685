-- What owners were told of: the card that expires soon (last four digits, month), the price list that is superseded.
alter table subscriptions add column expiring_card text, add column superseded_prices text;
