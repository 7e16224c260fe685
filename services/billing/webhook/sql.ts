import { type Db, execute, many, one } from "../../kit/postgres/db.ts";

/** An event; `customerId` is the id of a payment where it names no customer but a payment. */
export type StripeEvent = { id: string; type: string; created: Date; customerId: string | undefined };

// A customer that is being read, or waits after a failure, is marked all the same, but keeps its time.
const MARK_AGAIN = `on conflict (customer_id) do update set revision = excluded.revision,
  since = least(due_customers.since, excluded.since),
  next_at = case when due_customers.attempts = 0 then least(due_customers.next_at, excluded.next_at)
    else due_customers.next_at end`;

/** Stores events and marks their customers as due. Those that are known change nothing. Returns the ids of the others. */
export async function addEvents(db: Db, events: StripeEvent[]): Promise<string[]> {
  const rows = await many<{ id: string }>(
    db,
    "stripe_events_add",
    `with added as (
       insert into stripe_events (id, type, created, customer_id)
       select * from unnest($1::text[], $2::text[], $3::timestamptz[], $4::text[])
       on conflict do nothing returning id, customer_id),
     marked as (
       insert into due_customers (customer_id)
       select distinct customer_id from added where customer_id is not null order by customer_id
       ${MARK_AGAIN})
     select id from added`,
    [
      events.map(({ id }) => id),
      events.map(({ type }) => type),
      events.map(({ created }) => created),
      events.map(({ customerId }) => customerId ?? null),
    ],
  );
  return rows.map(({ id }) => id);
}

/** Returns the number of events deleted that were received more than so many days ago; at most `limit`. */
export function deleteEvents(db: Db, days: number, limit: number): Promise<number> {
  return execute(
    db,
    "stripe_events_delete",
    `delete from stripe_events where id in (select id from stripe_events
       where received_at < now() - make_interval(days => $1) limit $2 for update skip locked)`,
    [days, limit],
  );
}

/** A customer that this process may read until its lease is over. */
export type TakenCustomer = { customerId: string; revision: number; attempts: number };

/** Takes customers that are due, the longest waiting first. */
export function takeCustomers(db: Db, limit: number, leaseSeconds: number): Promise<TakenCustomer[]> {
  return many<TakenCustomer>(
    db,
    "due_customers_take",
    `update due_customers set attempts = attempts + 1, leased_until = now() + make_interval(secs => $2)
     where customer_id in (select customer_id from due_customers
       where next_at <= now() and (leased_until is null or leased_until <= now())
       order by next_at limit $1 for update skip locked)
     returning customer_id as "customerId", revision, attempts`,
    [limit, leaseSeconds],
  );
}

/** Leases customers again that are being read. */
export function renewCustomers(db: Db, customers: TakenCustomer[], leaseSeconds: number): Promise<number> {
  return execute(
    db,
    "due_customers_renew",
    `update due_customers d set leased_until = now() + make_interval(secs => $3)
     from unnest($1::text[], $2::int[]) as t (id, attempts) where d.customer_id = t.id and d.attempts = t.attempts`,
    [customers.map(({ customerId }) => customerId), customers.map(({ attempts }) => attempts), leaseSeconds],
  );
}

/** Takes a customer that was read off the list; one that was marked meanwhile is due again at once. */
export async function finishCustomer(
  db: Db,
  { customerId, revision, attempts }: TakenCustomer,
): Promise<void> {
  const text = "delete from due_customers where customer_id = $1 and revision = $2";
  if ((await execute(db, "due_customer_delete", text, [customerId, revision])) > 0) return;
  await execute(
    db,
    "due_customer_again",
    `update due_customers set attempts = 0, next_at = now(), since = now(), leased_until = null
     where customer_id = $1 and revision <> $2 and attempts = $3`,
    [customerId, revision, attempts],
  );
}

/** Has a customer that could not be read tried again later. */
export function retryCustomer(
  db: Db,
  { customerId, attempts }: TakenCustomer,
  seconds: number,
): Promise<number> {
  return execute(
    db,
    "due_customer_retry",
    `update due_customers set next_at = now() + make_interval(secs => $3), leased_until = null
     where customer_id = $1 and attempts = $2`,
    [customerId, attempts, seconds],
  );
}

/** Returns how long, in seconds, the customer waits that has been due longest; 0 when none is. */
export async function longestDue(db: Db): Promise<number> {
  const row = await one<{ seconds: number }>(
    db,
    "due_customers_longest",
    "select coalesce(greatest(extract(epoch from now() - min(since)), 0), 0)::float8 as seconds from due_customers",
  );
  return row!.seconds;
}

/**
 * Marks customers as due, spread over some minutes: all of them, or those of whom something may change, who have a
 * subscription that is not over (one of these statuses) or an open invoice.
 */
export function markCustomers(
  db: Db,
  { all, live, minutes }: { all: boolean; live: string[]; minutes: number },
) {
  return execute(
    db,
    "due_customers_mark",
    `insert into due_customers (customer_id, since, next_at)
     select customer_id, at, at from (
       select customer_id, now() + random() * make_interval(mins => $3) as at from customers c
       where $1 or exists (select from subscriptions s where s.account_id = c.account_id and s.status = any($2))
         or exists (select from invoices i where i.account_id = c.account_id and i.status = 'open')
       order by customer_id) marked
     ${MARK_AGAIN}`,
    [all, live, minutes],
  );
}

/** Marks a customer as due. */
export function markCustomer(db: Db, customerId: string): Promise<number> {
  const text = `insert into due_customers (customer_id) values ($1) ${MARK_AGAIN}`;
  return execute(db, "due_customer_mark", text, [customerId]);
}

export type Reconciliation = "events" | "customers";

/**
 * Takes a reconciliation that is due at a time; no other replica does before `next`. Returns until when it is done, in
 * seconds since 1970, or null for never; undefined when it is not due.
 */
export async function takeReconciliation(db: Db, name: Reconciliation, now: Date, next: Date) {
  const row = await one<{ doneUntil: number | null }>(
    db,
    "reconciliation_take",
    `update reconciliations set next_at = $3 where name = $1 and next_at <= $2
     returning extract(epoch from done_until)::bigint as "doneUntil"`,
    [name, now, next],
  );
  return row?.doneUntil;
}

export function setReconciled(db: Db, name: Reconciliation, until: Date): Promise<number> {
  return execute(
    db,
    "reconciliation_done",
    "update reconciliations set done_until = greatest(done_until, $2) where name = $1",
    [name, until],
  );
}

/** Has a reconciliation that failed done again at a time. */
export function retryReconciliation(db: Db, name: Reconciliation, at: Date): Promise<number> {
  const text = "update reconciliations set next_at = least(next_at, $2) where name = $1";
  return execute(db, "reconciliation_retry", text, [name, at]);
}
