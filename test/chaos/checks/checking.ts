import { setTimeout as delay } from "node:timers/promises";
import pg from "pg";
import type { Mailbox } from "../../../services/kit/testing/smtp-server.ts";
import { type Client, createClient } from "../clients/client.ts";
import { createRecord, type Record } from "../clients/record.ts";
import type { Shared } from "../clients/shared.ts";
import type { FaultLog } from "../faults/log.ts";
import type { Platform } from "../platform/platform.ts";

/** What a check looks at: the platform, and what clients observed of it. */
export type Checking = {
  platform: Platform;
  shared: Shared;
  record: Record;
  mailbox: Mailbox;
  faults: FaultLog;
  client: Client;
  get: <T>(path: string, token?: string) => Promise<T>;
  listAll: <T>(path: string, token?: string) => Promise<T[]>;
  rows: <Row>(statement: string) => Promise<Row[]>;
  /** Waits until there is no exception; returns those that remain. */
  until: (probe: () => Promise<string[]>) => Promise<string[]>;
};

/** A rule that holds once the platform is idle: `find` returns a sentence for each exception. */
export type Check = { name: string; find: (checking: Checking) => string[] | Promise<string[]> };

type Looked = Pick<Checking, "platform" | "shared" | "record">;

/** Returns what checks need. They wait up to `patienceMs` for what has to come true. */
export function createChecking(looked: Looked, patienceMs: number): Checking {
  const { platform, shared } = looked;
  const client = createClient(platform, `check-${Date.now()}`, createRecord());

  async function retryUntil<T>(probe: () => Promise<T | undefined>): Promise<T | undefined> {
    const deadline = Date.now() + patienceMs;
    for (;;) {
      const found = await probe();
      if (found !== undefined || Date.now() > deadline) return found;
      await delay(250);
    }
  }

  async function get<T>(path: string, token?: string): Promise<T> {
    const answer = await retryUntil(async () => {
      const found = await client.send("GET", path, undefined, { token });
      return found.status === 200 ? found : undefined;
    });
    if (!answer) throw new Error(`GET ${path} was not answered`);
    return answer.body as T;
  }

  async function listAll<T>(path: string, token?: string): Promise<T[]> {
    const found: T[] = [];
    for (let cursor = ""; ; ) {
      const query = `limit=100&cursor=${encodeURIComponent(cursor)}`;
      const page = await get<{ data: T[]; page: { nextCursor: string } }>(`${path}?${query}`, token);
      found.push(...page.data);
      cursor = page.page.nextCursor;
      if (cursor === "") return found;
    }
  }

  async function until(probe: () => Promise<string[]>): Promise<string[]> {
    let last: string[] = [];
    await retryUntil(async () => {
      last = await probe();
      return last.length === 0 || undefined;
    });
    return last;
  }

  /** On a connection of its own: those that there were end with the database. */
  async function rows<Row>(statement: string): Promise<Row[]> {
    const database = new pg.Client({ connectionString: platform.adminUrl });
    await database.connect();
    try {
      return (await database.query(statement)).rows as Row[];
    } finally {
      await database.end();
    }
  }

  return {
    ...looked,
    mailbox: shared.mailbox,
    faults: shared.faults,
    client,
    get,
    listAll,
    rows,
    until,
  };
}
