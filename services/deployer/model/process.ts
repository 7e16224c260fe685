import type { startReconciler } from "../reconcile/reconciler.ts";
import type { RuntimeStatus } from "../runtime/port.ts";
import type { Session } from "./database.ts";
import type { World } from "./world.ts";

/** What an operation of a dead process returns. */
export const never = new Promise<never>(() => {});

/** One process of the deployer: the real reconciler over simulated surroundings. */
export class Process {
  readonly name: string;
  readonly sessions = new Set<Session>();
  readonly watchers = new Set<(status: RuntimeStatus) => void>();
  connection: LeaseConnection | undefined;
  /** Builds that it follows. */
  builds = 0;
  dead = false;
  standsStill = false;
  // biome-ignore lint/suspicious/noExplicitAny: a stand-in of pg.Pool
  pool: any;
  reconciler: ReturnType<typeof startReconciler> | undefined;

  constructor(name: string) {
    this.name = name;
  }
}

let world: World | undefined;

/** Sets the world whose processes the next lease connections belong to. */
export function connectTo(next: World): void {
  world = next;
}

/**
 * The connection by which a process holds its advisory lock and hears notifications: stands in for pg.Client. Its
 * heartbeat is not modelled: the first one is never answered, and none follows.
 */
export class LeaseConnection {
  readonly #process: Process;
  readonly #world: World;
  readonly #listeners: { event: string; listener: () => void }[] = [];
  #owner: number | undefined;
  listens = false;

  constructor({ connectionString }: { connectionString: string }) {
    this.#world = world!;
    const name = new URL(connectionString).pathname;
    this.#process = this.#world.processes.find((one) => one.name === name)!;
  }

  on(event: string, listener: () => void): this {
    this.#listeners.push({ event, listener });
    return this;
  }

  once = this.on;

  connect(): Promise<void> {
    return this.#world.op(this.#process, "lease connection", () => {
      this.#process.connection = this;
    });
  }

  query(text: string, values: number[] = []): Promise<{ rows: object[] }> {
    if (text === "select 1") return never;
    return this.#world.op(this.#process, text.split("(")[0]!, () => {
      if (text.includes("pg_advisory_lock")) {
        this.#owner = values[1]!;
        this.#world.db.owners.add(this.#owner);
      }
      if (text.startsWith("listen")) this.listens = true;
      return { rows: [{ channel: "deployer", pid: 1, since: "" }] };
    });
  }

  tell(event: string): void {
    for (const one of this.#listeners) if (one.event === event) one.listener();
  }

  close(): void {
    this.listens = false;
    if (this.#owner !== undefined) this.#world.db.owners.delete(this.#owner);
    if (this.#process.connection === this) this.#process.connection = undefined;
  }

  /** Also when it breaks: the process hears of it. */
  async end(): Promise<void> {
    this.close();
    this.tell("end");
  }
}
