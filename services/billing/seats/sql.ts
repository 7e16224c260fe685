import { type Db, execute, one } from "../../kit/postgres/db.ts";

/** Notes that the seats of an account's subscription have to be compared with its members. */
export function putSeatCheck(db: Db, accountId: string): Promise<number> {
  return execute(
    db,
    "seat_check_put",
    `insert into seat_checks (account_id) values ($1)
     on conflict (account_id) do update set revision = excluded.revision`,
    [accountId],
  );
}

/** Returns the revision of what was noted last; undefined when nothing is. */
export async function findSeatCheck(db: Db, accountId: string): Promise<number | undefined> {
  const text = "select revision from seat_checks where account_id = $1";
  return (await one<{ revision: number }>(db, "seat_check_find", text, [accountId]))?.revision;
}

/** Deletes what was noted, unless it was noted again since. */
export function deleteSeatCheck(db: Db, accountId: string, revision: number): Promise<number> {
  const text = "delete from seat_checks where account_id = $1 and revision = $2";
  return execute(db, "seat_check_delete", text, [accountId, revision]);
}

/** Returns how many seats of a subscription were paid for the period that ends then, if fewer are billed from then on. */
export async function findPaidSeats(db: Db, subscriptionId: string, until: Date): Promise<number> {
  const text = "select quantity from paid_seats where subscription_id = $1 and until = $2";
  return (
    (await one<{ quantity: number }>(db, "paid_seats_find", text, [subscriptionId, until]))?.quantity ?? 0
  );
}

/** Records how many seats of a subscription are paid for the period that ends then. */
export function putPaidSeats(db: Db, subscriptionId: string, until: Date, quantity: number): Promise<number> {
  return execute(
    db,
    "paid_seats_put",
    `insert into paid_seats (subscription_id, until, quantity) values ($1, $2, $3)
     on conflict (subscription_id) do update set until = $2, quantity = $3`,
    [subscriptionId, until, quantity],
  );
}

/** Returns the customer of an account that has a subscription with one of these statuses. */
export async function findSubscribedCustomer(
  db: Db,
  accountId: string,
  statuses: string[],
): Promise<string | undefined> {
  const row = await one<{ customerId: string }>(
    db,
    "customer_subscribed",
    `select customer_id as "customerId" from customers c where account_id = $1
       and exists (select from subscriptions s where s.account_id = c.account_id and s.status = any($2))`,
    [accountId, statuses],
  );
  return row?.customerId;
}
