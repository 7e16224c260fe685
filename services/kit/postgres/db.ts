import { AsyncLocalStorage } from "node:async_hooks";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import pg from "pg";
import { isAway, isBusy, isSilence } from "../rpc/errors.ts";

export type Pool = pg.Pool;
export type Tx = pg.PoolClient;
/** Anything a statement can run on: the pool, or the connection of a transaction. */
export type Db = Pick<pg.Pool, "query">;

// The row is the message: times become protobuf timestamps, bigints become numbers.
const TIMESTAMPTZ = 1184;
const INT8 = 20;
const types = {
  getTypeParser: ((oid: number, format?: "text" | "binary") => {
    if (oid === TIMESTAMPTZ) return (text: string) => timestampFromMs(Date.parse(text));
    if (oid === INT8) return Number;
    return pg.types.getTypeParser(oid, format as "text");
  }) as typeof pg.types.getTypeParser,
};

/**
 * What every connection to PostgreSQL has: an end to waiting for a server that never answers, and signs of
 * life, by which one that vanished without a word is found out within half a minute.
 */
const vigilant = {
  connectionTimeoutMillis: 5_000,
  keepAlive: true,
  keepAliveInitialDelayMillis: 10_000,
};

// The same, asked of the server, so that it ends the session and frees the locks of a process that vanished.
const VIGILANT_SERVER = {
  tcp_user_timeout: 20_000,
  tcp_keepalives_idle: 10,
  tcp_keepalives_interval: 3,
  tcp_keepalives_count: 3,
};

/** Ends of what a connection of a pool waits for, in milliseconds; 0 is none. */
export type Timeouts = {
  /** For a lock that another transaction holds. */
  lockTimeoutMs: number;
  /** For a statement. */
  statementTimeoutMs: number;
  /** Between two statements of one transaction. */
  idleTransactionTimeoutMs: number;
};

export const defaultTimeouts: Timeouts = {
  lockTimeoutMs: 10_000,
  statementTimeoutMs: 20_000,
  idleTransactionTimeoutMs: 60_000,
};

// The server ends a statement; where it does not answer either, the connection is given up after this more.
const SILENCE_MS = 5_000;

/** The URL with settings of the session; those that it has itself win. */
function withSettings(url: string, settings: Record<string, number>): string {
  const target = new URL(url);
  const ours = Object.entries(settings).map(([name, value]) => `-c ${name}=${value}`);
  const options = [...ours, target.searchParams.get("options") ?? ""];
  target.searchParams.set("options", options.join(" ").trim());
  return target.href;
}

/** How a session that is kept connects: without timeouts of the server's, as it waits for others by design. */
export function sessionOptions(url: string, name: string): pg.ClientConfig {
  return { connectionString: withSettings(url, VIGILANT_SERVER), application_name: name, ...vigilant };
}

/** The open transactions that the running code is inside of, the innermost first. */
type Inside = { pool: Pool; open: boolean; outer: Inside | undefined };
const inside = new AsyncLocalStorage<Inside>();

const FIRST_BACKOFF_MS = 50;
const MAX_BACKOFF_MS = 1_000;

/**
 * A pool that code within one of its own transactions cannot reach: that would wait for a connection, or for a
 * lock, that the transaction itself holds, and PostgreSQL does not see such a circle.
 *
 * While the database is away one connection is tried now and then, and whoever comes between fails at once: a
 * database that starts up is not kept from it by a connection for each request.
 */
class GuardedPool extends pg.Pool {
  #failures = 0;
  #nextTry = 0;
  #reason: unknown;

  override connect(): Promise<Tx>;
  override connect(done: Connected): void;
  override connect(done?: Connected): unknown {
    const refusal = this.#refusal();
    if (refusal) return done ? process.nextTick(done, refusal) : Promise.reject(refusal);
    if (!done)
      return super.connect().then(
        (tx) => this.#reached(tx),
        (error) => this.#failed(error),
      );
    return super.connect((error, client, release) => {
      if (error) this.#failed(error).catch(() => {});
      else this.#reached();
      done(error, client, release);
    });
  }

  #refusal(): unknown {
    for (let at = inside.getStore(); at; at = at.outer)
      if (at.open && at.pool === this)
        return new Error("Code inside a transaction may use only its tx, not the pool it came from.");
    if (this.#failures === 0 || this.idleCount > 0) return undefined;
    if (Date.now() < this.#nextTry) return this.#reason;
    this.#backOff();
    return undefined;
  }

  #backOff(): void {
    const pause = FIRST_BACKOFF_MS * 2 ** Math.min(this.#failures, 10);
    this.#nextTry = Date.now() + Math.min(pause, MAX_BACKOFF_MS);
  }

  #reached(tx?: Tx): Tx | undefined {
    this.#failures = 0;
    return tx;
  }

  async #failed(error: unknown): Promise<never> {
    // A pool whose connections are all in use says nothing of the database.
    if (isAway(error) && !isBusy(error)) {
      this.#reason = error;
      this.#backOff();
      this.#failures++;
    }
    throw error;
  }
}

type Connected = Parameters<pg.Pool["connect"]>[0];

/** A pool of connections to one service's database. */
export function createPool(
  url: string,
  options: { max?: number; name?: string; timeouts?: Timeouts } = {},
): Pool {
  const timeouts = options.timeouts ?? defaultTimeouts;
  const pool = new GuardedPool({
    connectionString: withSettings(url, {
      ...VIGILANT_SERVER,
      lock_timeout: timeouts.lockTimeoutMs,
      statement_timeout: timeouts.statementTimeoutMs,
      idle_in_transaction_session_timeout: timeouts.idleTransactionTimeoutMs,
    }),
    types,
    max: options.max ?? 10,
    application_name: options.name,
    ...vigilant,
    query_timeout: timeouts.statementTimeoutMs && timeouts.statementTimeoutMs + SILENCE_MS,
    idleTimeoutMillis: 30_000,
  });
  // A connection that breaks while nothing runs on it, idle or within a transaction, would end the process
  // without a listener. The pool replaces it, and the next statement on it fails.
  pool.on("error", () => {});
  pool.on("connect", (client) => client.on("error", () => {}));
  return pool;
}

/** A connection of its own to a pool's database, for work that may take and wait as long as it needs. */
export async function connectPatiently(pool: Pool): Promise<pg.Client> {
  const client = new pg.Client({ ...pool.options, query_timeout: 0 });
  client.on("error", () => {});
  await client.connect();
  await client.query(
    "set lock_timeout = 0; set statement_timeout = 0; set idle_in_transaction_session_timeout = 0",
  );
  return client;
}

/** Runs a named, prepared statement and returns its rows. */
export async function many<Row>(db: Db, name: string, text: string, values: unknown[] = []): Promise<Row[]> {
  const result = await db.query<never>({ name, text, values });
  return result.rows as Row[];
}

/** Runs a named, prepared statement and returns its first row, or undefined. */
export async function one<Row>(
  db: Db,
  name: string,
  text: string,
  values: unknown[] = [],
): Promise<Row | undefined> {
  return (await many<Row>(db, name, text, values))[0];
}

/** Runs a named, prepared statement and returns how many rows it touched. */
export async function execute(db: Db, name: string, text: string, values: unknown[] = []): Promise<number> {
  const result = await db.query({ name, text, values });
  return result.rowCount ?? 0;
}

/**
 * Runs `work` in one transaction: committed when it returns, rolled back when it throws. Until it ends, what
 * `work` does may use `tx` alone: the pool itself and a second transaction throw at once.
 */
export async function transaction<T>(pool: Pool, work: (tx: Tx) => Promise<T>): Promise<T> {
  const tx = await pool.connect();
  const outer = inside.getStore();
  const here: Inside = { pool, open: true, outer: outer?.open ? outer : undefined };
  let broken: Error | undefined;
  try {
    await tx.query("begin");
    const result = await inside.run(here, () => work(tx));
    await tx.query("commit");
    return result;
  } catch (error) {
    // A connection that did not answer would not answer that either.
    if (isSilence(error)) broken = error;
    else
      await tx.query("rollback").catch((failure: Error) => {
        broken = failure;
      });
    throw error;
  } finally {
    here.open = false;
    tx.release(broken);
  }
}

/** Whether an error is a violated unique constraint, and if named, this one. */
export function isDuplicate(error: unknown, constraint?: string): boolean {
  const e = error as { code?: string; constraint?: string } | null;
  return e?.code === "23505" && (constraint === undefined || e.constraint === constraint);
}
