import { type Db, execute, many, one } from "../../services/kit/postgres/db.ts";
import type { Count, Total } from "./rate-limiter.ts";

/** Adds requests to the current window of each subject, or begins one; returns the totals of all gateways. */
export function addRateCounts(db: Db, counts: Count[]): Promise<Total[]> {
  // Sorted, so that two gateways lock rows in the same order.
  const sorted = counts.toSorted((a, b) => (a.subject < b.subject ? -1 : 1));
  return many<Total>(
    db,
    "rate_counts_add",
    `insert into rate_counts as r (subject, used, ends_at)
     select subject, used, now() + make_interval(secs => ms / 1000)
     from unnest($1::text[], $2::int[], $3::float8[]) as added (subject, used, ms)
     on conflict (subject) do update set
       used = case when r.ends_at <= now() then excluded.used else r.used + excluded.used end,
       ends_at = case when r.ends_at <= now() then excluded.ends_at else r.ends_at end
     returning subject, used, (extract(epoch from ends_at - now()) * 1000)::float8 as "endsInMs"`,
    [sorted.map((c) => c.subject), sorted.map((c) => c.count), sorted.map((c) => c.windowMs)],
  );
}

/** Deletes windows that are over, but none that is being counted in: in another order, both would wait for each other. */
export function sweepRateCounts(db: Db): Promise<number> {
  return execute(
    db,
    "rate_counts_sweep",
    `delete from rate_counts where subject in
       (select subject from rate_counts where ends_at < now() - interval '1 minute' for update skip locked)`,
  );
}

/** A request that begins under a key: the MACs of its bytes and of its JSON, and who performs it. */
type Begin = { id: Buffer; bytes: Buffer; json: Buffer; holder: string; leaseMs: number };

/** Claims a key that is new or has expired. Returns false for any other. */
export async function beginIdempotent(db: Db, begin: Begin): Promise<boolean> {
  const taken = await execute(
    db,
    "idempotent_begin",
    `insert into idempotency_keys as r (id, request, request_json, holder, lease_until, expires_at)
     values ($1, $2, $3, $4, now() + make_interval(secs => $5::float8 / 1000), now() + interval '24 hours')
     on conflict (id) do update set request = excluded.request, request_json = excluded.request_json,
       holder = excluded.holder, lease_until = excluded.lease_until, expires_at = excluded.expires_at,
       status = null, answer = null
     where r.expires_at <= now()`,
    [begin.id, begin.bytes, begin.json, begin.holder, begin.leaseMs],
  );
  return taken === 1;
}

/** Claims the key of the same request when its outcome is unknown and its lease has ended; else returns false. */
export async function resumeIdempotent(
  db: Db,
  resume: { id: Buffer; request: Buffer; holder: string; leaseMs: number },
): Promise<boolean> {
  const taken = await execute(
    db,
    "idempotent_resume",
    `update idempotency_keys set holder = $3, expires_at = now() + interval '24 hours',
       lease_until = now() + make_interval(secs => $4::float8 / 1000)
     where id = $1 and request = $2 and status is null and lease_until <= now()`,
    [resume.id, resume.request, resume.holder, resume.leaseMs],
  );
  return taken === 1;
}

/** `json` is null where an older gateway claimed the key. */
type StoredRequest = { request: Buffer; json: Buffer | null; status: number | null; answer: Buffer | null };

export function findIdempotent(db: Db, id: Buffer): Promise<StoredRequest | undefined> {
  return one<StoredRequest>(
    db,
    "idempotent_find",
    "select request, request_json as json, status, answer from idempotency_keys where id = $1",
    [id],
  );
}

/** Stores the response for a day from now, unless the lease went to another holder meanwhile. */
export function finishIdempotent(db: Db, id: Buffer, holder: string, status: number, answer: Buffer) {
  return execute(
    db,
    "idempotent_finish",
    `update idempotency_keys set status = $3, answer = $4, expires_at = now() + interval '24 hours'
     where id = $1 and holder = $2`,
    [id, holder, status, answer],
  );
}

/** Releases the key of a request that changed nothing. */
export function releaseIdempotent(db: Db, id: Buffer, holder: string): Promise<number> {
  return execute(db, "idempotent_release", "delete from idempotency_keys where id = $1 and holder = $2", [
    id,
    holder,
  ]);
}

/** Ends the lease, so that the same request can be repeated at once; the key stays bound to it. */
export function yieldIdempotent(db: Db, id: Buffer, holder: string): Promise<number> {
  return execute(
    db,
    "idempotent_yield",
    "update idempotency_keys set lease_until = now() where id = $1 and holder = $2",
    [id, holder],
  );
}

/** Deletes at most `limit` expired keys, but none that is being taken again. Returns how many. */
export function sweepIdempotent(db: Db, limit: number): Promise<number> {
  return execute(
    db,
    "idempotent_sweep",
    `delete from idempotency_keys where id = any(array(
       select id from idempotency_keys where expires_at <= now() order by expires_at limit $1 for update skip locked))`,
    [limit],
  );
}
