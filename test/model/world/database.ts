/** A row under its column names; times in ms. Never changed in place. */
// biome-ignore lint/suspicious/noExplicitAny: the columns of all tables
export type Row = Readonly<Record<string, any>>;

export type Table =
  | "projects"
  | "environments"
  | "services"
  | "work"
  | "deployments"
  | "built_images"
  | "removed";
export type Statement = (q: Query, ...values: never[]) => Row[] | number;
/** An event in the outbox. */
export type OutboxEvent = { kind: string; deploymentId?: string };

type Rows = ReadonlyMap<string, Row>;
type Lock = `${Table | "advisory"} ${string}`;

/** Thrown by a statement that needs a row which another transaction has locked. */
export class Blocked {
  readonly holder: Session;
  constructor(holder: Session) {
    this.holder = holder;
  }
}

/** The error with which PostgreSQL ends a statement. */
export class DatabaseError extends Error {
  readonly code: string;
  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

/**
 * PostgreSQL at READ COMMITTED, as far as the deployer's statements can tell: each statement sees what was committed
 * when it began. One that changes a row waits for the transaction that changed it before, and then checks the new form
 * of that row only.
 */
export class Database {
  readonly committed: Record<Table, Map<string, Row>> = {
    projects: new Map(),
    environments: new Map(),
    services: new Map(),
    work: new Map(),
    deployments: new Map(),
    built_images: new Map(),
    removed: new Map(),
  };
  readonly locks = new Map<Lock, Session>();
  /** Advisory locks: the owners whose connection is open. */
  readonly owners = new Set<number>();
  /** Grows with each commit that changed a row or emitted an event. */
  changes = 0;
  readonly now: () => number;
  /** clock_timestamp() of PostgreSQL. */
  readonly clock: () => number;
  /** Called with what is about to be committed. */
  readonly onCommit: (session: Session) => void;
  readonly statements: Readonly<Record<string, Statement>>;
  /** Called with the name of a statement that is not among `statements`, before it throws: code may catch that. */
  readonly onUnknown: ((name: string) => void) | undefined;

  constructor(
    options: Pick<Database, "now" | "onCommit" | "statements"> &
      Partial<Pick<Database, "clock" | "onUnknown">>,
  ) {
    this.now = options.now;
    this.clock = options.clock ?? options.now;
    this.onCommit = options.onCommit;
    this.statements = options.statements;
    this.onUnknown = options.onUnknown;
  }
}

/** One transaction. */
export class Session {
  readonly written = new Map<Table, Map<string, Row | undefined>>();
  readonly events: OutboxEvent[] = [];
  notifies = false;
  state: "open" | "committed" | "aborted" = "open";
  /** The transaction whose lock it waits for. */
  waitsFor: Session | undefined;
  lastUsed: number;
  readonly begun: number;
  readonly #locks: Lock[] = [];
  readonly db: Database;

  constructor(db: Database) {
    this.db = db;
    this.begun = db.now();
    this.lastUsed = this.begun;
  }

  /** Returns a function that runs a statement, and runs it again with the same snapshot after it threw `Blocked`. */
  statement(name: string, values: unknown[]): () => { rows: Row[]; rowCount: number } {
    const statement = this.db.statements[name];
    if (!statement) {
      this.db.onUnknown?.(name);
      throw new Error(`the statement ${name} has no mirror: write it into test/model/statements/`);
    }
    const q = new Query(this);
    return () => {
      if (this.state !== "open") throw new DatabaseError("57P01", "the connection was terminated");
      this.lastUsed = this.db.now();
      this.waitsFor = undefined;
      q.reset();
      try {
        const result = statement(q, ...(values as never[]));
        q.apply();
        return typeof result === "number"
          ? { rows: [], rowCount: result }
          : { rows: result, rowCount: result.length };
      } catch (error) {
        if (!(error instanceof Blocked)) throw error;
        q.freeze();
        for (let other: Session | undefined = error.holder; other; other = other.waitsFor)
          if (other === this) throw new DatabaseError("40P01", "deadlock detected");
        this.waitsFor = error.holder;
        throw error;
      }
    };
  }

  commit(): void {
    if (this.state !== "open") throw new DatabaseError("57P01", "the connection was terminated");
    this.db.onCommit(this);
    for (const [table, rows] of this.written)
      for (const [id, row] of rows) {
        if (row) this.db.committed[table].set(id, row);
        else this.db.committed[table].delete(id);
      }
    if (this.written.size > 0 || this.events.length > 0) this.db.changes++;
    this.#end("committed");
  }

  abort(): void {
    if (this.state === "open") this.#end("aborted");
  }

  #end(state: "committed" | "aborted"): void {
    this.state = state;
    this.waitsFor = undefined;
    for (const lock of this.#locks) this.db.locks.delete(lock);
  }

  lock(lock: Lock): void {
    const holder = this.db.locks.get(lock);
    if (holder === this) return;
    if (holder) throw new Blocked(holder);
    this.db.locks.set(lock, this);
    this.#locks.push(lock);
  }

  /** Returns the newest form of a row: this transaction's, else the committed one. */
  newest(table: Table, id: string): Row | undefined {
    const own = this.written.get(table);
    return own?.has(id) ? own.get(id) : this.db.committed[table].get(id);
  }
}

/** What one statement reads and writes. */
export class Query {
  readonly session: Session;
  #snapshot: Record<Table, Rows> | undefined;
  #writes: [Table, string, Row | undefined][] = [];

  constructor(session: Session) {
    this.session = session;
  }

  /** now() of PostgreSQL: when the transaction began. */
  get now(): number {
    return this.session.begun;
  }

  /** clock_timestamp() of PostgreSQL. */
  get clock(): number {
    return this.session.db.clock();
  }

  lives(owner: number): boolean {
    return this.session.db.owners.has(owner);
  }

  get(table: Table, id: string): Row | undefined {
    const own = this.session.written.get(table);
    if (own?.has(id)) return own.get(id);
    return (this.#snapshot ?? this.session.db.committed)[table].get(id);
  }

  rows(table: Table, where: (row: Row) => unknown): Row[] {
    const own = this.session.written.get(table);
    const found: Row[] = [];
    for (const [id, row] of (this.#snapshot ?? this.session.db.committed)[table])
      if (!own?.has(id) && where(row)) found.push(row);
    if (own) for (const row of own.values()) if (row && where(row)) found.push(row);
    return found;
  }

  /** Locks rows and returns, in their newest form, those that still meet the condition. */
  lock(table: Table, where: (row: Row) => unknown): Row[] {
    const found: Row[] = [];
    for (const { id } of this.rows(table, where)) {
      this.session.lock(`${table} ${id}`);
      const newest = this.session.newest(table, id);
      if (newest && where(newest)) found.push(newest);
    }
    return found;
  }

  /** Locks a row; returns `false` when another transaction holds its lock. */
  tryLock(table: Table, id: string): boolean {
    try {
      this.session.lock(`${table} ${id}`);
      return true;
    } catch {
      return false;
    }
  }

  /** pg_advisory_xact_lock() of PostgreSQL. */
  lockAdvisory(name: string): void {
    this.session.lock(`advisory ${name}`);
  }

  /** `update … where … returning`: returns the new rows. */
  update(table: Table, where: (row: Row) => unknown, change: (row: Row) => Row): Row[] {
    return this.lock(table, where).map((row) => this.put(table, { ...row, ...change(row) }));
  }

  put(table: Table, row: Row): Row {
    this.#writes.push([table, row.id, row]);
    return row;
  }

  remove(table: Table, where: (row: Row) => unknown): Row[] {
    const rows = this.lock(table, where);
    for (const { id } of rows) this.#writes.push([table, id, undefined]);
    return rows;
  }

  emit(event: OutboxEvent): void {
    this.session.events.push(event);
  }

  notify(): void {
    this.session.notifies = true;
  }

  reset(): void {
    this.#writes = [];
  }

  /** Fixes what the statement sees, for when it runs again. */
  freeze(): void {
    const { committed } = this.session.db;
    this.#snapshot ??= {
      projects: new Map(committed.projects),
      environments: new Map(committed.environments),
      services: new Map(committed.services),
      work: new Map(committed.work),
      deployments: new Map(committed.deployments),
      built_images: new Map(committed.built_images),
      removed: new Map(committed.removed),
    };
  }

  /** Shows what the statement wrote to the next ones of its transaction. */
  apply(): void {
    for (const [table, id, row] of this.#writes) {
      const rows = this.session.written.get(table) ?? new Map();
      this.session.written.set(table, rows.set(id, row));
    }
  }
}
