import { type Connection, never, type Process } from "./process.ts";
import type { World } from "./world.ts";

let world: World | undefined;

/** Sets the world whose processes the next lease connections belong to. */
export function connectTo(next: World): void {
  world = next;
}

/**
 * Stands in for pg.Client where a process keeps a session for its leases. Its heartbeat is not modelled: the first one
 * is never answered, and none follows.
 */
export class LeaseConnection implements Connection {
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
    return this.#world.operations.run(this.#process, "lease connection", () => {
      this.#process.connection = this;
    });
  }

  query(text: string, values: number[] = []): Promise<{ rows: object[] }> {
    if (text === "select 1") return never;
    return this.#world.operations.run(this.#process, text.split("(")[0]!, () => {
      if (text.includes("pg_advisory_lock")) {
        this.#owner = values[1]!;
        this.#world.db.owners.add(this.#owner);
      }
      if (text.startsWith("listen")) this.listens = true;
      return { rows: [{ channel: "deployer", pid: 1, since: "" }] };
    });
  }

  emit(event: string): void {
    for (const one of this.#listeners) if (one.event === event) one.listener();
  }

  close(): void {
    this.listens = false;
    if (this.#owner !== undefined) this.#world.db.owners.delete(this.#owner);
    if (this.#process.connection === this) this.#process.connection = undefined;
  }

  /** Closes the connection, as also a break does: the process learns of it. */
  async end(): Promise<void> {
    this.close();
    this.emit("end");
  }
}
