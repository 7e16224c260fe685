import { AsyncLocalStorage } from "node:async_hooks";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import pg from "pg";
import { createLanes } from "../concurrency/lanes.ts";
import { isPoolBusy, isReadTimeout, isUnreachable } from "../failures.ts";
import { DEFAULT_TIMEOUTS, POOL_SIZE, poolOptions, type Timeouts } from "./connection.ts";

export type Pool = pg.Pool;
export type Tx = pg.PoolClient;
/** Anything a statement can run on: the pool, or the connection of a transaction. */
export type Db = Pick<pg.Pool, "query">;

const TIMESTAMPTZ = 1184;
const INT8 = 20;
/** The row is the message: times become protobuf timestamps, bigints become numbers. */
export const rowTypes = {
  getTypeParser: ((oid: number, format?: "text" | "binary") => {
    if (oid === TIMESTAMPTZ) return (text: string) => timestampFromMs(Date.parse(text));
    if (oid === INT8) return Number;
    return pg.types.getTypeParser(oid, format as "text");
  }) as typeof pg.types.getTypeParser,
};

/** A transaction that the running code is in, and the one around it. */
type Enclosing = { pool: Pool; open: boolean; outer: Enclosing | undefined };
const enclosing = new AsyncLocalStorage<Enclosing>();

const FIRST_BACKOFF_MS = 50;
const MAX_BACKOFF_MS = 1_000;

/** How long a transaction waits for others to end. */
const POOL_WAIT_MS = 5_000;

const lanesOf = (max: number) => max - Math.floor(max / 4);

/**
 * A pool that refuses code in one of its own transactions: such code would wait for a connection or a lock that the
 * transaction itself holds, a deadlock that PostgreSQL cannot detect.
 *
 * While the database is unreachable, one connection is tried now and then and every other use fails at once, so that
 * requests do not flood a database that is starting up.
 */
class GuardedPool extends pg.Pool {
  /** For transactions, which may wait for locks: a quarter of the connections is left for single statements. */
  readonly lanes = createLanes(lanesOf(this.options.max), POOL_WAIT_MS);
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
    for (let at = enclosing.getStore(); at; at = at.outer)
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
    // That all connections of the pool are in use says nothing about the database.
    if (isUnreachable(error) && !isPoolBusy(error)) {
      this.#reason = error;
      this.#backOff();
      this.#failures++;
    }
    throw error;
  }
}

type Connected = Parameters<pg.Pool["connect"]>[0];

/** PostgreSQL's code for a statement of a transaction in which an earlier one failed. */
const TRANSACTION_FAILED = "25P02";
const cameAfter = (error: unknown) => (error as { code?: unknown } | null)?.code === TRANSACTION_FAILED;

/**
 * A connection that remembers why its transaction failed: of statements that are in flight together, code may see the
 * failure of a later one first, which says nothing.
 */
class Connection extends pg.Client {
  failure: unknown;

  override query(...given: unknown[]): never {
    const result: unknown = (super.query as (...args: unknown[]) => unknown)(...given);
    if (result instanceof Promise)
      result.catch((error) => {
        if (!cameAfter(error)) this.failure = error;
      });
    return result as never;
  }
}

const reason = (tx: Tx, error: unknown) => (cameAfter(error) ? (tx as unknown as Connection).failure : error);

// The server ends a statement. If its answer does not arrive within this, the connection is given up.
const ANSWER_MS = 5_000;

/** Returns a pool of connections to the database of a service. */
export function createPool(
  url: string,
  options: { max?: number; name?: string; timeouts?: Timeouts } = {},
): Pool {
  const timeouts = options.timeouts ?? DEFAULT_TIMEOUTS;
  const pool = new GuardedPool({
    ...poolOptions(url, timeouts),
    types: rowTypes,
    Client: Connection,
    max: options.max ?? POOL_SIZE,
    // Statements that a transaction does not wait for one by one go to the server together.
    pipeline: true,
    application_name: options.name,
    query_timeout: timeouts.statementTimeoutMs && timeouts.statementTimeoutMs + ANSWER_MS,
    idleTimeoutMillis: 30_000,
  });
  // Without a listener, a connection that breaks while no statement runs would end the process. The pool replaces
  // it, and the next statement on it fails.
  pool.on("error", () => {});
  pool.on("connect", (client) => client.on("error", () => {}));
  return pool;
}

/** Opens a connection to a pool's database without timeouts, for work that may take long. */
export async function connectWithoutTimeouts(pool: Pool): Promise<pg.Client> {
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

/** Runs a named, prepared statement and returns the number of rows it affected. */
export async function execute(db: Db, name: string, text: string, values: unknown[] = []): Promise<number> {
  const result = await db.query({ name, text, values });
  return result.rowCount ?? 0;
}

/**
 * Runs `work` in one transaction and returns its result: committed when it returns, rolled back when it throws. `work`
 * may use only `tx`: using the pool itself, or beginning a second transaction, throws.
 */
export async function transaction<T>(pool: Pool, work: (tx: Tx) => Promise<T>): Promise<T> {
  const outer = enclosing.getStore();
  const leave = await laneIn(pool, outer);
  let tx: Tx;
  try {
    tx = await pool.connect();
  } catch (error) {
    leave();
    throw error;
  }
  const current: Enclosing = { pool, open: true, outer: outer?.open ? outer : undefined };
  let broken: Error | undefined;
  // Sent together with the first statement: it fails only when the connection does.
  const begun = tx.query("begin");
  begun.catch(() => {});
  try {
    const result = await enclosing.run(current, () => work(tx));
    await begun;
    await tx.query("commit");
    return result;
  } catch (error) {
    // A connection that did not answer would not answer a rollback either.
    if (isReadTimeout(error)) broken = error;
    else
      await tx.query("rollback").catch((failure: Error) => {
        broken = failure;
      });
    throw reason(tx, error);
  } finally {
    current.open = false;
    tx.release(broken);
    leave();
  }
}

/** Waits for a lane of the pool, except for code that the pool will refuse: it would wait for itself. */
async function laneIn(pool: Pool, outer: Enclosing | undefined): Promise<() => void> {
  for (let at = outer; at; at = at.outer) if (at.open && at.pool === pool) return () => {};
  return (pool as GuardedPool).lanes.enter();
}

/**
 * Runs one part of a transaction. When it fails, what it changed is undone, the transaction goes on, and the failure is
 * returned. Throws when the connection is broken.
 */
export async function attempt(tx: Tx, part: () => Promise<void>): Promise<unknown> {
  await tx.query("savepoint attempt");
  try {
    await part();
  } catch (error) {
    await tx.query("rollback to savepoint attempt");
    return reason(tx, error) ?? new Error("failed without a reason");
  }
  await tx.query("release savepoint attempt");
  return undefined;
}

/** Whether an error is the violation of a unique constraint, of this one if it is named. */
export function isDuplicate(error: unknown, constraint?: string): boolean {
  const e = error as { code?: string; constraint?: string } | null;
  return e?.code === "23505" && (constraint === undefined || e.constraint === constraint);
}
