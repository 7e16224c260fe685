import { setTimeout as delay } from "node:timers/promises";
import pg from "pg";
import { sessionOptions } from "./db.ts";

/** How long a statement of a kept session may take, until the session is given up. */
const SILENCE_MS = 10_000;
const BEAT_MS = 2_000;

/**
 * Opens sessions that are kept for what lives as long as they do: LISTEN and advisory locks. One that does not
 * answer a heartbeat ends, as does its predecessor at the server, so that no lock waits for a session that is dead.
 * Whoever opened a session opens the next one at its "end".
 */
export function sessionOpener(url: string, name: string) {
  let before: { pid: number; since: string } | undefined;
  return async function open(): Promise<pg.Client> {
    const client = new pg.Client({ ...sessionOptions(url, name), query_timeout: SILENCE_MS });
    client.on("error", () => {});
    try {
      await client.connect();
      if (before) await client.query(END, [before.pid, before.since]);
      before = (await client.query<{ pid: number; since: string }>(SELF)).rows[0];
    } catch (error) {
      await client.end().catch(() => {});
      throw error;
    }
    void keepBeating(client);
    return client;
  };
}

async function keepBeating(client: pg.Client): Promise<void> {
  const ended = new AbortController();
  client.once("end", () => ended.abort());
  try {
    for (;;) {
      await delay(BEAT_MS, undefined, { signal: ended.signal, ref: false });
      await client.query("select 1");
    }
  } catch {
    await client.end().catch(() => {});
  }
}

const SELF = "select pid, backend_start::text as since from pg_stat_activity where pid = pg_backend_pid()";
// Pids are used again; the start tells them apart.
const END =
  "select pg_terminate_backend(pid) from pg_stat_activity where pid = $1 and backend_start::text = $2";
