import pg from "pg";
import { retry } from "../concurrency/retry.ts";
import { startLoop } from "../tasks/loop.ts";
import { sessionOptions } from "./connection.ts";

/** How long a statement of a kept session may take before the session is given up. */
const ANSWER_MS = 10_000;
/** Several fit into the time after which the server ends a silent session. */
const HEARTBEAT_MS = 2_000;
const RETRY_MS = 500;

type SessionOptions = {
  url: string;
  /** Its name in `pg_stat_activity`. */
  name: string;
  /** Prepares each new session: takes locks, listens. When it fails, another session is opened. */
  prepare: (session: pg.Client) => Promise<void>;
  /** Called after each failure to open another session, with the number of failures. */
  failed: (error: unknown, failures: number) => void;
};

/**
 * Keeps a session open for what ends with it: LISTEN and advisory locks. When a session does not answer a heartbeat,
 * another one is opened, which first ends the old one on the server, so that a dead session holds no locks. The server
 * itself ends one that falls silent, within 8 s. Fails when the first session cannot be opened twice.
 */
export async function keepSession({ url, name, prepare, failed }: SessionOptions) {
  const stopping = new AbortController();
  const { signal } = stopping;
  const open = sessionOpener(url, name);
  let current: pg.Client;

  async function renew(): Promise<void> {
    const session = await open();
    try {
      await prepare(session);
    } catch (error) {
      await session.end().catch(() => {});
      throw error;
    }
    current = session.once("end", () => {
      if (!signal.aborted) retry(renew, { everyMs: RETRY_MS, failed, signal }).catch(() => {});
    });
    if (signal.aborted) await session.end();
  }

  // The server has ended the first one if this process was held up for longer than it waits: once more then.
  await renew().catch(renew);
  return {
    stop: async () => {
      stopping.abort();
      await current.end().catch(() => {});
    },
  };
}

/** Returns a function that opens a session and ends the one it opened before, if the server still has it. */
function sessionOpener(url: string, name: string) {
  let before: { pid: number; since: string } | undefined;
  return async function open(): Promise<pg.Client> {
    const session = new pg.Client({ ...sessionOptions(url, name), query_timeout: ANSWER_MS });
    session.on("error", () => {});
    try {
      await session.connect();
      if (before) await session.query(END, [before.pid, before.since]);
      before = (await session.query<{ pid: number; since: string }>(SELF)).rows[0];
    } catch (error) {
      await session.end().catch(() => {});
      throw error;
    }
    sendHeartbeats(session);
    return session;
  };
}

function sendHeartbeats(session: pg.Client): void {
  const heartbeats = startLoop(async () => {
    await session.query("select 1").catch(() => void session.end().catch(() => {}));
    return HEARTBEAT_MS;
  }, HEARTBEAT_MS);
  session.once("end", () => void heartbeats.stop());
}

const SELF = "select pid, backend_start::text as since from pg_stat_activity where pid = pg_backend_pid()";
// Process ids are reused, so the start time is compared too.
const END =
  "select pg_terminate_backend(pid) from pg_stat_activity where pid = $1 and backend_start::text = $2";
