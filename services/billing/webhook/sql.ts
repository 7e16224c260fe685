import { type Db, execute, many } from "../../kit/postgres/db.ts";

export type StripeEvent = { id: string; type: string; created: Date; customerId: string | undefined };

/** Stores a webhook. One that is known is left as it is. */
export function addEvent(db: Db, { id, type, created, customerId }: StripeEvent): Promise<number> {
  return execute(
    db,
    "stripe_event_add",
    `insert into stripe_events (id, type, created, customer_id, processed_at)
     values ($1, $2, $3, $4, case when $4::text is null then now() end) on conflict do nothing`,
    [id, type, created, customerId ?? null],
  );
}

/**
 * Takes customers of whom something was reported that is not processed, the longest waiting first. Nobody else takes
 * them for as long as a request to the provider may take; after failures, longer each time.
 */
export async function takeCustomers(db: Db, limit: number): Promise<string[]> {
  const rows = await many<{ customerId: string }>(
    db,
    "stripe_events_take",
    `with due as (
       select id from stripe_events where processed_at is null and next_at <= now()
       order by next_at limit $1 for update skip locked)
     update stripe_events e set attempts = attempts + 1,
       next_at = now() + least(interval '30 s' * power(2, least(attempts, 10)), interval '1 h')
     from due where e.id = due.id returning e.customer_id as "customerId"`,
    [limit],
  );
  return [...new Set(rows.map(({ customerId }) => customerId))];
}

/** Marks what was received of a customer before `at` as processed. */
export function markProcessed(db: Db, customerId: string, at: Date): Promise<number> {
  return execute(
    db,
    "stripe_events_processed",
    "update stripe_events set processed_at = now() where customer_id = $1 and processed_at is null and received_at < $2",
    [customerId, at],
  );
}

/** Returns the database's time. */
export async function timeOf(db: Db): Promise<Date> {
  const [row] = await many<{ at: string }>(db, "time", "select clock_timestamp()::text as at");
  return new Date(row!.at);
}
