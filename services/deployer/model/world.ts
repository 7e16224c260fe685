import { DEFAULT_TIMEOUTS } from "../../kit/postgres/connection.ts";
import { startReconciler } from "../reconcile/reconciler.ts";
import type { Choices } from "./choices.ts";
import { allWait, Clock, restartIds, useClock } from "./clock.ts";
import { Blocked, Database, type Session } from "./database.ts";
import { Engine, isBuiltImage } from "./engine.ts";
import { createSimulatedPool } from "./pool.ts";
import { connectTo, never, Process } from "./process.ts";
import { placeServices, Watcher } from "./rules.ts";
import type { Fence } from "./statements/fences.ts";
import { BESIDES, mirror } from "./statements/mirror.ts";
import { showValue } from "./trace.ts";
import { actions } from "./users.ts";

/** A rule that a schedule broke. */
export class Violation extends Error {
  readonly rule: string;
  constructor(rule: string, detail: string) {
    super(`${rule}: ${detail}`);
    this.rule = rule;
  }
}

const START = 1_800_000_000_000;
/** More than any schedule needs that comes to rest. */
const MOST_STEPS = 60_000;
/** Longer than all deadlines together. */
const REST_MS = 70 * 60_000;
/** Time in which every process compares runtime and database once more. */
const LOOK_AGAIN_MS = 16_000;
/** Ends of waiting that every connection of a pool has (kit/db.ts). */
const { lockTimeoutMs: LOCK_MS, idleTransactionTimeoutMs: IDLE_MS } = DEFAULT_TIMEOUTS;
const marks = Buffer.alloc(0);

type Pending = { process: Process; label: string; ready: () => boolean; run: () => void };

/**
 * One schedule: processes over a simulated database and engine, users, and a scheduler that decides by `choices`
 * what happens next. Everything that code waits for is either a timer or waits in `pending`.
 */
export class World {
  readonly choices: Choices;
  readonly clock = new Clock(START);
  readonly db: Database;
  readonly engine: Engine;
  readonly processes: Process[] = [];
  readonly watcher: Watcher;
  readonly trace: string[] | undefined;
  /** No more faults and users: all has to come to rest. */
  settling = false;
  steps = 0;
  faults: number;
  /** What has to be delivered at least once. */
  readonly deliveries: ((process: Process) => Promise<void>)[] = [];
  #pending: Pending[] = [];
  #wanted: number;
  #preempt: number;
  #faulty: number;
  #born = 0;
  #until = 0;
  #violation: Violation | undefined;
  readonly #looksAgain: boolean;

  constructor(choices: Choices, removed: ReadonlySet<Fence>, traced: boolean) {
    connectTo(this);
    useClock(this.clock);
    restartIds();
    this.choices = choices;
    this.trace = traced ? [] : undefined;
    this.#wanted = 2 + choices.below(8);
    this.#preempt = choices.of([0.02, 0.1, 0.3]);
    this.faults = choices.below(4);
    this.#faulty = choices.of([0.01, 0.05]);
    this.#looksAgain = choices.below(8) === 0;
    this.watcher = new Watcher((rule, detail) => this.violate(rule, detail));
    this.db = new Database({
      now: () => this.clock.now,
      onCommit: (session) => this.watcher.committing(session),
      statements: { ...BESIDES, ...mirror(removed) },
    });
    this.engine = new Engine(this, choices.chance(0.5));
  }

  violate(rule: string, detail: string): void {
    this.#violation ??= new Violation(rule, detail);
  }

  note(text: string): void {
    this.trace?.push(`${((this.clock.now - START) / 1000).toFixed(3).padStart(9)} ${text}`);
  }

  /** Lets something outside a process happen, at once or later; before or after it a fault may come. */
  op<T>(
    process: Process,
    label: string,
    effect: () => T,
    failure = () => new Error("it is away"),
  ): Promise<T> {
    if (process.dead) return never;
    if (++this.steps > MOST_STEPS) {
      this.violate("bounded steps", `after ${MOST_STEPS} steps it has not come to rest`);
      return never;
    }
    if (!process.standsStill && !this.#interrupts()) return this.#perform(process, label, effect, failure);
    return new Promise((resolve) => {
      const run = () => resolve(this.#perform(process, label, effect, failure));
      this.#pending.push({ process, label, run, ready: () => true });
    });
  }

  #interrupts(): boolean {
    return !this.settling && this.choices.chance(this.#preempt);
  }

  #perform<T>(process: Process, label: string, effect: () => T, failure: () => Error): Promise<T> {
    if (process.dead) return never;
    const fault = this.#fault();
    if (fault) this.note(`${process.name} ${label}: ${fault}`);
    if (fault === "killed before") return this.kill(process);
    if (fault === "fails before") return Promise.reject(failure());
    try {
      const value = effect();
      if (this.trace && !fault) this.note(`${process.name} ${label} ${showValue(value)}`);
      if (fault === "killed after") return this.kill(process);
      return fault === "fails after" ? Promise.reject(failure()) : Promise.resolve(value);
    } catch (error) {
      if (error instanceof Blocked) {
        this.note(`${process.name} ${label} waits for a lock`);
        const { holder } = error;
        const until = this.clock.now + LOCK_MS;
        const free = () => holder.state !== "open";
        return new Promise((resolve) => {
          const again = () => this.#perform(process, label, effect, failure);
          const run = () => resolve(free() ? again() : Promise.reject(failure()));
          this.#pending.push({ process, label, run, ready: () => free() || this.clock.now >= until });
        });
      }
      this.note(`${process.name} ${label}: ${(error as Error).message}`);
      return Promise.reject(error);
    }
  }

  #fault() {
    if (this.settling || this.faults === 0 || !this.choices.chance(this.#faulty)) return undefined;
    this.faults--;
    return this.choices.of(["killed before", "killed after", "fails before", "fails after"] as const);
  }

  /** Tells a process something that may be late, lost or told twice. */
  message(process: Process, label: string, deliver: () => void): void {
    if (process.dead) return;
    if (!this.settling && this.faults > 0 && this.choices.chance(0.02)) {
      this.faults--;
      const lost = this.choices.chance(0.5);
      this.note(`${process.name} ${label} is ${lost ? "lost" : "told twice"}`);
      if (lost) return;
      deliver();
    }
    if (process.standsStill || this.#interrupts())
      this.#pending.push({ process, label, run: deliver, ready: () => true });
    else deliver();
  }

  kill(process: Process): Promise<never> {
    process.dead = true;
    for (const session of process.sessions) session.abort();
    process.connection?.close();
    this.#pending = this.#pending.filter((one) => one.process !== process);
    this.processes.splice(this.processes.indexOf(process), 1);
    return never;
  }

  /** Another process of the deployer begins. */
  boot(): void {
    const process = new Process("ABCDEFGHIJKLMNOPQRSTUVWXYZ"[this.#born++] ?? `P${this.#born}`);
    this.processes.push(process);
    this.note(`${process.name} starts`);
    process.pool = createSimulatedPool(this, process);
    process.reconciler = startReconciler({
      databaseUrl: `sim:${process.name}`,
      pool: process.pool,
      runtime: this.engine.runtime(process),
      builder: this.engine.builder(process),
      resolve: this.engine.resolve(process),
      store: { sweep: async () => 0, removePrefix: async () => {} } as never,
      addons: {} as never,
      addonServers: { ownServer: [], list: async () => [], watch: () => {} } as never,
      secrets: { seal: () => marks, archiveKey: () => "archive" } as never,
      log: this.#logOf(process),
      isBuiltImage,
      minReadySeconds: 0,
      buildsAtOnce: 1,
    });
    // A process that cannot start is started again.
    process.reconciler.catch(() => void this.kill(process));
  }

  // biome-ignore lint/suspicious/noExplicitAny: a stand-in of pino
  #logOf(process: Process): any {
    const note = (level: string) => (facts: { err?: Error }, message: string) =>
      this.note(`${process.name}   ${level}: ${message}${facts.err ? ` (${facts.err.message})` : ""}`);
    if (this.trace) return { info: note("info"), warn: note("warn"), error: note("error") };
    const nothing = () => {};
    return { info: nothing, warn: nothing, error: nothing };
  }

  /** Commits a transaction and notifies every process that listens. */
  commit(session: Session): void {
    session.commit();
    if (!session.notifies) return;
    for (const process of this.processes)
      if (process.connection?.listens)
        this.message(process, "notification", () => process.connection?.tell("notification"));
  }

  /** Runs the schedule to its end. Throws the `Violation` that it found. */
  async run(): Promise<void> {
    placeServices(this.db, this.choices.chance(0.2) ? 2 : 1);
    this.boot();
    try {
      for (let left = this.#wanted * 2; left > 0; ) {
        await this.#rest();
        if (!this.#goOn()) left--;
      }
      await this.#settle();
    } finally {
      for (const process of [...this.processes]) void this.kill(process);
      await allWait();
    }
  }

  async #rest(): Promise<void> {
    await allWait();
    for (const { sessions } of this.processes)
      for (const session of sessions) {
        if (!session.waitsFor && this.clock.now - session.lastUsed >= IDLE_MS) session.abort();
      }
    if (this.#violation) throw this.#violation;
  }

  /** One more step of what is under way; `false` when it was something new. */
  #goOn(): boolean {
    const ready = this.#pending.filter((one) => one.ready() && !one.process.standsStill);
    if (ready.length > 0 && !this.choices.chance(0.15)) {
      this.#let(ready[this.choices.below(ready.length)]!);
      return true;
    }
    if (this.clock.now < this.#until && this.clock.advance()) return true;
    this.choices.of(this.#news())();
    return false;
  }

  #let(one: Pending): void {
    this.#pending.splice(this.#pending.indexOf(one), 1);
    one.run();
  }

  /** What may happen next besides what is under way. */
  #news(): (() => void)[] {
    const moving = this.processes.filter((one) => !one.standsStill);
    const still = this.processes.filter((one) => one.standsStill);
    const goOn = () => {
      // Past the end of a lease, for a process that stands still.
      this.#until = this.clock.now + this.choices.of(still.length > 0 ? [0, 65_000] : [0, 3_000]);
      this.clock.advance();
    };
    const news = [goOn];
    if (this.#wanted > 0 && moving.length > 0) {
      const act = () => {
        this.#wanted--;
        const process = this.choices.of(moving);
        this.choices.of(actions)(this, process);
      };
      news.push(act, act, act);
    }
    if (this.deliveries.length > 0 && moving.length > 0)
      news.push(() => this.#deliver(this.choices.of(moving)));
    // On one machine only one process at a time works on a database.
    if (this.processes.length < (this.engine.resumes ? 2 : 1)) news.push(() => this.boot());
    if (still.length > 0) news.push(() => this.#wake(still[0]!));
    if (this.faults > 0 && moving.length > 0) {
      news.push(() => {
        this.faults--;
        const process = this.choices.of(moving);
        const happening = this.choices.of(["stands still", "loses its connection", "stops", "runtime loses"]);
        this.note(`${process.name} ${happening}`);
        if (happening === "stands still") process.standsStill = true;
        else if (happening === "loses its connection") void process.connection?.end();
        else if (happening === "stops") this.#stop(process);
        else for (const id of this.engine.runs.keys()) this.engine.lose(id);
      });
    }
    return news;
  }

  #stop(process: Process): void {
    void process.reconciler
      ?.then((one) => one.stop())
      .then(
        () => process.dead || this.kill(process),
        () => this.kill(process),
      );
  }

  #wake(process: Process): void {
    this.note(`${process.name} goes on`);
    process.standsStill = false;
  }

  /** At least once: what a process that died had in hand is handed out again. */
  #deliver(process: Process): void {
    const at = this.choices.below(this.deliveries.length);
    const handle = this.deliveries[at]!;
    const twice = !this.settling && this.choices.chance(0.1);
    handle(process).then(
      () => {
        const index = this.deliveries.indexOf(handle);
        if (index >= 0 && !twice) this.deliveries.splice(index, 1);
      },
      () => {},
    );
  }

  async #settle(): Promise<void> {
    this.note("all faults are over");
    this.settling = true;
    for (const process of this.processes) if (process.standsStill) this.#wake(process);
    const end = this.clock.now + REST_MS;
    let quietSince: { at: number; changes: number } | undefined;
    let delivering = 0;
    for (;;) {
      await this.#rest();
      const next = this.#pending.find((one) => one.ready());
      if (next) {
        this.#let(next);
        continue;
      }
      if (this.processes.length === 0) this.boot();
      if (this.deliveries.length > 0 && this.clock.now >= delivering) {
        delivering = this.clock.now + 1_000;
        this.#deliver(this.processes[0]!);
        continue;
      }
      const unrest = this.deliveries.length > 0 ? "an event is not delivered" : this.watcher.unrest(this);
      if (unrest === undefined && quietSince?.changes !== this.db.changes) {
        this.watcher.rests(this);
        quietSince = { at: this.clock.now, changes: this.db.changes };
        if (this.#violation) continue;
        // It stays as it is when runtime and database are compared again; looking costs much.
        if (!this.#looksAgain) return;
      }
      if (unrest === undefined && this.clock.now - quietSince!.at >= LOOK_AGAIN_MS) return;
      if (this.clock.now > end) this.violate("converged", unrest ?? "it moves for ever");
      this.clock.advance();
    }
  }
}
