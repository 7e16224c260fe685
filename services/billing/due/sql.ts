import { type Db, execute, many, one } from "../../kit/postgres/db.ts";

/** What is read from the payment provider: a customer, or a payment whose customer is not known. */
export type DueKind = "customer" | "payment";

/** An event, and which of both it is about; some are about neither. */
export type StripeEvent = {
  id: string;
  type: string;
  created: Date;
  customerId?: string | undefined;
  paymentId?: string | undefined;
};

const QUEUES = {
  customer: { table: "due_customers", key: "customer_id" },
  payment: { table: "due_payments", key: "payment_id" },
};

/** What is being read, or waits after a failure, is marked all the same, but keeps its time. */
function markAgain(kind: DueKind): string {
  const { table, key } = QUEUES[kind];
  return `on conflict (${key}) do update set revision = excluded.revision,
    since = least(${table}.since, excluded.since),
    next_at = case when ${table}.attempts = 0 then least(${table}.next_at, excluded.next_at) else ${table}.next_at end`;
}

/**
 * Stores events and marks their customers and payments as due. Those that are known change nothing. Returns the ids of
 * the others.
 */
export async function addEvents(db: Db, events: StripeEvent[]): Promise<string[]> {
  const rows = await many<{ id: string }>(
    db,
    "stripe_events_add",
    `with added as (
       insert into stripe_events (id, type, created, customer_id, payment_id)
       select * from unnest($1::text[], $2::text[], $3::timestamptz[], $4::text[], $5::text[])
       on conflict do nothing returning id, customer_id, payment_id),
     customers as (
       insert into due_customers (customer_id)
       select distinct customer_id from added where customer_id is not null order by customer_id
       ${markAgain("customer")}),
     payments as (
       insert into due_payments (payment_id)
       select distinct payment_id from added where payment_id is not null order by payment_id
       ${markAgain("payment")})
     select id from added`,
    [
      events.map(({ id }) => id),
      events.map(({ type }) => type),
      events.map(({ created }) => created),
      events.map(({ customerId }) => customerId ?? null),
      events.map(({ paymentId }) => paymentId ?? null),
    ],
  );
  return rows.map(({ id }) => id);
}

/** Returns the number of events deleted that were received more than so many days ago; at most `limit`. */
export function deleteEvents(db: Db, days: number, limit: number): Promise<number> {
  return execute(
    db,
    "stripe_events_delete",
    `delete from stripe_events where id = any(array(select id from stripe_events
       where received_at < now() - make_interval(days => $1) limit $2 for update skip locked))`,
    [days, limit],
  );
}

/** A customer or payment that this process may read until its lease is over. */
export type Due = { kind: DueKind; id: string; revision: number; attempts: number };

/** Takes customers or payments that are due, the longest waiting first. */
export function takeDue(db: Db, kind: DueKind, limit: number, leaseSeconds: number): Promise<Due[]> {
  const { table, key } = QUEUES[kind];
  return many<Due>(
    db,
    `${table}_take`,
    `update ${table} set attempts = attempts + 1, leased_until = now() + make_interval(secs => $2)
     where ${key} = any(array(select ${key} from ${table}
       where next_at <= now() and (leased_until is null or leased_until <= now())
       order by next_at limit $1 for update skip locked))
     returning '${kind}' as kind, ${key} as id, revision, attempts`,
    [limit, leaseSeconds],
  );
}

/** Renews the leases of customers or payments that are being read. */
export function renewDue(db: Db, kind: DueKind, due: Due[], leaseSeconds: number): Promise<number> {
  const { table, key } = QUEUES[kind];
  return execute(
    db,
    `${table}_renew`,
    `update ${table} d set leased_until = now() + make_interval(secs => $3)
     from unnest($1::text[], $2::int[]) as t (id, attempts) where d.${key} = t.id and d.attempts = t.attempts`,
    [due.map(({ id }) => id), due.map(({ attempts }) => attempts), leaseSeconds],
  );
}

/** Removes what was read; what was marked meanwhile is due again at once. */
export async function finishDue(db: Db, { kind, id, revision, attempts }: Due): Promise<void> {
  const { table, key } = QUEUES[kind];
  const text = `delete from ${table} where ${key} = $1 and revision = $2`;
  if ((await execute(db, `${table}_delete`, text, [id, revision])) > 0) return;
  await execute(
    db,
    `${table}_again`,
    `update ${table} set attempts = 0, next_at = now(), since = now(), leased_until = null
     where ${key} = $1 and revision <> $2 and attempts = $3`,
    [id, revision, attempts],
  );
}

/** Has what could not be read tried again later. */
export function retryDue(db: Db, { kind, id, attempts }: Due, seconds: number): Promise<number> {
  const { table, key } = QUEUES[kind];
  return execute(
    db,
    `${table}_retry`,
    `update ${table} set next_at = now() + make_interval(secs => $3), leased_until = null
     where ${key} = $1 and attempts = $2`,
    [id, attempts, seconds],
  );
}

/** Returns how long, in seconds, the customer or payment waits that has been due longest; 0 when none is. */
export async function longestDue(db: Db): Promise<number> {
  const row = await one<{ seconds: number }>(
    db,
    "due_longest",
    `select coalesce(greatest(extract(epoch from now() - min(since)), 0), 0)::float8 as seconds
     from (select since from due_customers union all select since from due_payments) due`,
  );
  return row!.seconds;
}

/**
 * Marks customers as due, spread over some minutes: all of them, or those who may change, who have a subscription that is
 * not over (one of these statuses) or an open invoice.
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
     ${markAgain("customer")}`,
    [all, live, minutes],
  );
}

/** Marks a customer as due. */
export function markCustomer(db: Db, customerId: string): Promise<number> {
  const text = `insert into due_customers (customer_id) values ($1) ${markAgain("customer")}`;
  return execute(db, "due_customer_mark", text, [customerId]);
}

/** Marks payments as due. */
export function markPayments(db: Db, paymentIds: string[]): Promise<number> {
  const text = `insert into due_payments (payment_id)
    select distinct id from unnest($1::text[]) id order by id ${markAgain("payment")}`;
  return execute(db, "due_payments_mark", text, [paymentIds]);
}
