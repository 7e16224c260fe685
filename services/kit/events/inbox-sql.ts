// Statements on the inbox: which events a consumer has handled, and how often handling one failed.
import { type Db, execute, many, one } from "../postgres/db.ts";

/** An event as one consumer sees it. */
type InboxKey = { consumer: string; eventId: string };

/** Records events as handled. Returns those that were not before. */
export async function insertHandled(db: Db, consumer: string, eventIds: string[]): Promise<Set<string>> {
  const text = `insert into inbox (consumer, event_id) select $1, unnest($2::text[])
    on conflict do nothing returning event_id as id`;
  const added = await many<{ id: string }>(db, "inbox_insert", text, [consumer, eventIds]);
  return new Set(added.map(({ id }) => id));
}

/** Counts a failure of an event's handler. Returns how often it failed, in all replicas and across restarts. */
export async function countFailure(db: Db, { consumer, eventId }: InboxKey): Promise<number> {
  const text = `insert into inbox_tries (consumer, event_id, tries) values ($1, $2, 1)
    on conflict (consumer, event_id) do update set tries = inbox_tries.tries + 1, at = now() returning tries`;
  return (await one<{ tries: number }>(db, "inbox_try", text, [consumer, eventId]))!.tries;
}

export function deleteFailures(db: Db, { consumer, eventId }: InboxKey): Promise<number> {
  const text = "delete from inbox_tries where consumer = $1 and event_id = $2";
  return execute(db, "inbox_tries_forget", text, [consumer, eventId]);
}

/** Deletes entries older than this; no event is delivered that late. */
export async function deleteOldEntries(db: Db, days: number): Promise<void> {
  for (const table of ["inbox", "inbox_tries"]) {
    const text = `delete from ${table} where at < now() - make_interval(days => $1)`;
    await execute(db, `${table}_sweep`, text, [days]);
  }
}
