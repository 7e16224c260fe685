import type { Pool } from "../postgres/db.ts";
import { eventually } from "./testing.ts";

export type HeldCommits = Awaited<ReturnType<typeof holdCommits>>;

/**
 * Holds every commit of a change of `table` that matches `when` (SQL over `new` and, for updates, `old`) until the
 * test decides about it. A process killed meanwhile dies right before the change is durable.
 */
export async function holdCommits(
  platform: { pool: Pool },
  on: "insert" | "update" | "delete",
  table: string,
  when: string,
) {
  const holder = await platform.pool.connect();
  const key = 1_234_567;
  await holder.query("select pg_advisory_lock($1)", [key]);
  await holder.query(`
    create or replace function hold_commit() returns trigger language plpgsql as $$
      begin perform pg_advisory_xact_lock(${key}); return null; end $$;
    create constraint trigger hold_commit after ${on} on ${table} deferrable initially deferred
      for each row when (${when}) execute function hold_commit()`);
  const waiting = () =>
    platform.pool
      .query<{ pid: number }>(
        "select pid from pg_locks where locktype = 'advisory' and objid = $1 and not granted and database = (select oid from pg_database where datname = current_database())",
        [key],
      )
      .then(({ rows }) => rows.map(({ pid }) => pid));
  return {
    /** Waits until so many are held. Returns the pids of their backends. */
    reached: (commits = 1) =>
      eventually(`a commit is held on ${table}`, async () => {
        const pids = await waiting();
        return pids.length >= commits && pids;
      }),
    /** Decides about the commits that are held, and holds no further ones. */
    async release(outcome: "kept" | "lost"): Promise<void> {
      const held = await waiting();
      if (outcome === "lost")
        for (const pid of held) await holder.query("select pg_terminate_backend($1)", [pid]);
      await holder.query("select pg_advisory_unlock($1)", [key]);
      await eventually("nothing is held", async () => (await waiting()).length === 0);
      await holder.query(`drop trigger hold_commit on ${table}`);
      holder.release();
    },
  };
}
