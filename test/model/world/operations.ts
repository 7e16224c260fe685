import { DEFAULT_TIMEOUTS } from "../../../services/kit/postgres/connection.ts";
import type { Choices } from "../choices.ts";
import { showValue } from "../trace.ts";
import type { Clock } from "./clock.ts";
import { Blocked } from "./database.ts";
import { never, type Process } from "./process.ts";

/** More than any schedule needs that comes to rest. */
const MAX_OPERATIONS = 60_000;
const FAULTS = ["killed before", "killed after", "fails before", "fails after", "stalls"] as const;
const MESSAGE_FAULT = 0.02;

/** How often operations are delayed, how often they meet a fault, and how many faults there are at most. */
export type Odds = {
  delay: number;
  fault: number;
  faults: number;
  /** How the operations begin that meet faults; all do unless it is given. */
  places?: readonly string[];
  /** How often those are delayed. */
  delayThere?: number;
};

type Surroundings = {
  readonly choices: Choices;
  readonly clock: Clock;
  readonly trace: string[] | undefined;
  readonly settling: boolean;
  note(text: string): void;
  violate(rule: string, detail: string): void;
  kill(process: Process): Promise<never>;
};

type Waiting = { process: Process; ready: () => boolean; run: () => void };

/** What processes do outside themselves. Each operation is a step of the schedule: it may be late or meet a fault. */
export class Operations {
  count = 0;
  faultsLeft: number;
  #waiting: Waiting[] = [];
  readonly #odds: Odds;
  readonly #world: Surroundings;

  constructor(world: Surroundings, odds: Odds) {
    this.#world = world;
    this.#odds = odds;
    this.faultsLeft = odds.faults;
  }

  /** Returns what `effect` returns, at once or later. A fault comes before or after the effect. */
  run<T>(
    process: Process,
    label: string,
    effect: () => T,
    failure = () => new Error("unavailable"),
  ): Promise<T> {
    if (process.dead) return never;
    if (++this.count > MAX_OPERATIONS) {
      this.#world.violate("bounded steps", `after ${MAX_OPERATIONS} operations it has not come to rest`);
      return never;
    }
    if (!process.paused && !this.#isDelayed(label)) return this.#perform(process, label, effect, failure);
    return this.#later(process, () => this.#perform(process, label, effect, failure));
  }

  #later<T>(process: Process, perform: () => Promise<T>): Promise<T> {
    return new Promise((resolve) => {
      this.#waiting.push({ process, run: () => resolve(perform()), ready: () => true });
    });
  }

  /** Delivers a message to a process, which may be late, lost or delivered twice. */
  deliver(process: Process, label: string, deliver: () => void): void {
    if (process.dead) return;
    if (this.#meetsFault(MESSAGE_FAULT)) {
      const lost = this.#world.choices.chance(0.5);
      this.#world.note(`${process.name} ${label} is ${lost ? "lost" : "delivered twice"}`);
      if (lost) return;
      deliver();
    }
    if (process.paused || this.#isDelayed(label))
      this.#waiting.push({ process, run: deliver, ready: () => true });
    else deliver();
  }

  /** Returns the delayed operations that can continue now. */
  ready(): Waiting[] {
    return this.#waiting.filter((one) => one.ready() && !one.process.paused);
  }

  continue(one: Waiting): void {
    this.#waiting.splice(this.#waiting.indexOf(one), 1);
    one.run();
  }

  /** Drops all that a process waits for. */
  drop(process: Process): void {
    this.#waiting = this.#waiting.filter((one) => one.process !== process);
  }

  #isDelayed(label: string): boolean {
    const { delay, delayThere = delay } = this.#odds;
    return !this.#world.settling && this.#world.choices.chance(this.#isAtPlace(label) ? delayThere : delay);
  }

  #isAtPlace(label: string): boolean {
    return this.#odds.places?.some((place) => label.startsWith(place)) ?? true;
  }

  #meetsFault(probability: number): boolean {
    if (this.faultsLeft === 0 || !this.#world.choices.chance(probability)) return false;
    this.faultsLeft--;
    return true;
  }

  #perform<T>(process: Process, label: string, effect: () => T, failure: () => Error): Promise<T> {
    if (process.dead) return never;
    const world = this.#world;
    const meets = this.#isAtPlace(label) && this.#meetsFault(this.#odds.fault);
    const fault = meets ? world.choices.of(FAULTS) : undefined;
    if (fault) world.note(`${process.name} ${label}: ${fault}`);
    if (fault === "killed before") return world.kill(process);
    if (fault === "fails before") return Promise.reject(failure());
    if (fault === "stalls") {
      process.paused = true;
      return this.#later(process, () => this.#perform(process, label, effect, failure));
    }
    try {
      const value = effect();
      if (world.trace && !fault) world.note(`${process.name} ${label} ${showValue(value)}`);
      if (fault === "killed after") return world.kill(process);
      return fault === "fails after" ? Promise.reject(failure()) : Promise.resolve(value);
    } catch (error) {
      if (!(error instanceof Blocked)) {
        world.note(`${process.name} ${label}: ${(error as Error).message}`);
        return Promise.reject(error);
      }
      world.note(`${process.name} ${label} waits for a lock`);
      return this.#waitForLock(process, error, failure, () => this.#perform(process, label, effect, failure));
    }
  }

  /** Performs a blocked operation again once the lock is free; fails after the lock timeout. */
  #waitForLock<T>(
    process: Process,
    { holder }: Blocked,
    failure: () => Error,
    again: () => Promise<T>,
  ): Promise<T> {
    const { clock } = this.#world;
    const until = clock.now + DEFAULT_TIMEOUTS.lockTimeoutMs;
    const isFree = () => holder.state !== "open";
    return new Promise((resolve) => {
      const run = () => resolve(isFree() ? again() : Promise.reject(failure()));
      this.#waiting.push({ process, run, ready: () => isFree() || clock.now >= until });
    });
  }
}
