import { DEFAULT_TIMEOUTS } from "../../../services/kit/postgres/connection.ts";
import type { Choices } from "../choices.ts";
import type { Fence } from "../statements/fences.ts";
import { mirror, NOT_MODELLED } from "../statements/mirror.ts";
import { allWait, restartIds, useClock } from "../world/clock.ts";
import { Engine } from "../world/engine.ts";
import { connectTo } from "../world/lease-connection.ts";
import type { Process } from "../world/process.ts";
import { World } from "../world/world.ts";
import { startDeployer } from "./deployer.ts";
import { Rules } from "./rules.ts";
import { insertServices } from "./services.ts";
import { deployImage, requests } from "./users.ts";

/** Longer than all deadlines together. */
const SETTLE_MS = 70 * 60_000;
/** Time in which every process compares runtime and database once more. */
const RESYNC_MS = 16_000;
/** How long a service takes to run before anything happens. */
const BRING_UP_MS = 5_000;
const PROCESS_FAULTS = ["pauses", "loses its connection", "stops"] as const;
const RUNTIME_FAULTS = ["lose", "fallBack", "drift", "crash", "refuse"] as const;
/** Where a fault leaves a release applied that is not recorded. */
const APPLYING = ["runtime.apply"];
/** Where a process stalls with variables that change meanwhile. */
const PREPARING = ["release_get", "release_live", "resolve", "revision_for", "service_lock_held"];

/**
 * One schedule: processes over a simulated database and engine, and users. `choices` decide what happens next. All
 * that code waits for is either a timer or a delayed operation.
 */
export class Schedule {
  readonly world: World;
  readonly #engine: Engine;
  readonly #rules: Rules;
  readonly #requests: (typeof requests)[number];
  #requestsLeft: number;
  /** Timers up to then run without another choice. */
  #timersUntil = 0;
  #started = 0;
  readonly #resyncsAtRest: boolean;

  constructor(choices: Choices, removed: ReadonlySet<Fence>, traced: boolean) {
    this.#requestsLeft = 2 + choices.below(8);
    const delay = choices.of([0.02, 0.1, 0.3]);
    const anywhere = { fault: choices.of([0.01, 0.05]) };
    const applying = { fault: 0.3, places: APPLYING };
    const preparing = { fault: 0.1, places: PREPARING, delayThere: 0.5 };
    const where = choices.of([anywhere, anywhere, applying, preparing]);
    const odds = { delay, faults: choices.below(5), ...where };
    this.#requests = choices.of(requests);
    this.#resyncsAtRest = choices.below(8) === 0;
    this.#rules = new Rules((rule, detail) => this.world.violate(rule, detail));
    this.world = new World({
      choices,
      odds,
      statements: { ...NOT_MODELLED, ...mirror(removed) },
      onCommit: (session) => this.#rules.checkCommit(session),
      traced,
    });
    this.#engine = new Engine(this.world, choices.chance(0.5));
    connectTo(this.world);
    useClock(this.world.clock);
    restartIds();
  }

  /** Runs the schedule to its end. Throws the `Violation` that it found. */
  async run(): Promise<void> {
    const { world } = this;
    insertServices(world.db, world.choices.chance(0.2) ? 2 : 1, !world.choices.chance(0.1));
    try {
      if (world.choices.chance(0.5)) await this.#bringUp();
      else this.#start();
      for (let left = this.#requestsLeft * 2; left > 0; ) {
        await this.#untilAllWait();
        if (!this.#continue()) left--;
      }
      await this.#settle();
    } finally {
      for (const process of [...world.processes]) void world.kill(process);
      await allWait();
    }
  }

  /** Deploys a service and lets it run, without faults: the schedule begins with a release. */
  async #bringUp(): Promise<void> {
    const { clock, operations, processes } = this.world;
    const { faultsLeft } = operations;
    operations.faultsLeft = 0;
    this.world.settling = true;
    this.#start();
    await this.#untilAllWait();
    deployImage(this.world, this.#engine, processes[0]!);
    for (const end = clock.now + BRING_UP_MS; clock.now < end; await this.#untilAllWait()) {
      const next = operations.ready()[0];
      if (next) operations.continue(next);
      else clock.advance();
    }
    this.world.settling = false;
    operations.faultsLeft = faultsLeft;
  }

  async #untilAllWait(): Promise<void> {
    await allWait();
    const { clock, processes } = this.world;
    for (const { sessions } of processes)
      for (const session of sessions) {
        const idleMs = clock.now - session.lastUsed;
        if (!session.waitsFor && idleMs >= DEFAULT_TIMEOUTS.idleTransactionTimeoutMs) session.abort();
      }
    if (this.world.violation) throw this.world.violation;
  }

  /** Takes the next step; returns `false` when it begins something new. */
  #continue(): boolean {
    const { choices, clock, operations } = this.world;
    const ready = operations.ready();
    if (ready.length > 0 && !choices.chance(0.15)) {
      operations.continue(choices.of(ready));
      return true;
    }
    // Something may begin before the time has passed, while an operation waits.
    const passes = clock.now < this.#timersUntil && (ready.length === 0 || choices.chance(0.5));
    if (passes && clock.advance()) return true;
    choices.of(this.#beginnings())();
    return false;
  }

  /** Returns what may begin now. */
  #beginnings(): (() => void)[] {
    const { choices, deliveries, operations, processes } = this.world;
    const running = processes.filter((one) => !one.paused);
    const paused = processes.filter((one) => one.paused);
    const letTimePass = () => this.#letTimePass(paused.length > 0);
    const found = [letTimePass, letTimePass];
    if (this.#requestsLeft > 0 && running.length > 0) {
      const request = () => this.#request(choices.of(running));
      found.push(request, request, request);
    }
    if (deliveries.length > 0 && running.length > 0)
      found.push(() => this.world.deliver(choices.of(running)));
    // On one machine, a database has one process.
    if (processes.length < (this.#engine.resumes ? 2 : 1)) found.push(() => this.#start());
    if (paused.length > 0) found.push(() => this.#resume(paused[0]!));
    if (operations.faultsLeft > 0 && running.length > 0)
      found.push(() => this.#meetFault(choices.of(running)));
    return found;
  }

  /** Lets timers run: while a process is paused, also past the end of its leases. */
  #letTimePass(paused: boolean): void {
    const { choices, clock } = this.world;
    this.#timersUntil = clock.now + choices.of(paused ? [0, 65_000] : [0, 3_000]);
    clock.advance();
  }

  #request(process: Process): void {
    this.#requestsLeft--;
    this.world.choices.of(this.#requests)(this.world, this.#engine, process);
  }

  #meetFault(process: Process): void {
    const { choices, operations } = this.world;
    operations.faultsLeft--;
    if (choices.chance(0.5)) this.#meetRuntimeFault();
    else this.#meetProcessFault(process);
  }

  #meetProcessFault(process: Process): void {
    const fault = this.world.choices.of(PROCESS_FAULTS);
    this.world.note(`${process.name} ${fault}`);
    if (fault === "pauses") process.paused = true;
    else if (fault === "loses its connection") void process.connection?.end();
    else this.#stop(process);
  }

  #meetRuntimeFault(): void {
    const { runtime } = this.#engine;
    const fault = this.world.choices.of(RUNTIME_FAULTS);
    this.world.note(`the runtime: ${fault}`);
    if (fault === "refuse") runtime.refuse();
    else for (const id of [...runtime.runs.keys()]) runtime[fault](id);
  }

  #start(): void {
    const name = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[this.#started++] ?? `P${this.#started}`;
    startDeployer(this.world, this.#engine, name);
  }

  #stop(process: Process): void {
    const kill = () => void (process.dead || this.world.kill(process));
    void process.reconciler?.then((reconciler) => reconciler.stop()).then(kill, kill);
  }

  #resume(process: Process): void {
    this.world.note(`${process.name} resumes`);
    process.paused = false;
  }

  /** Ends all faults and lets everything come to rest, within bounded time. */
  async #settle(): Promise<void> {
    const { clock, db, deliveries, operations, processes } = this.world;
    this.world.note("all faults are over");
    this.world.settling = true;
    operations.faultsLeft = 0;
    for (const process of processes) if (process.paused) this.#resume(process);
    const end = clock.now + SETTLE_MS;
    let atRest: { since: number; changes: number } | undefined;
    let nextDelivery = 0;
    for (;;) {
      await this.#untilAllWait();
      const next = operations.ready()[0];
      if (next) {
        operations.continue(next);
        continue;
      }
      if (processes.length === 0) this.#start();
      if (deliveries.length > 0 && clock.now >= nextDelivery) {
        nextDelivery = clock.now + 1_000;
        this.world.deliver(processes[0]!);
        continue;
      }
      const unrest =
        deliveries.length > 0
          ? "an event is not delivered"
          : this.#rules.findUnrest(this.world, this.#engine);
      if (unrest === undefined && atRest?.changes !== db.changes) {
        this.#rules.checkAtRest(this.world, this.#engine);
        atRest = { since: clock.now, changes: db.changes };
        if (this.world.violation) continue;
        // It stays at rest when runtime and database are compared again; checking that is expensive.
        if (!this.#resyncsAtRest) return;
      }
      if (unrest === undefined && clock.now - atRest!.since >= RESYNC_MS) return;
      if (clock.now > end) this.world.violate("converged", unrest ?? "it changes for ever");
      clock.advance();
    }
  }
}
