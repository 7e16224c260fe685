import type { Choices } from "../choices.ts";
import { Clock } from "./clock.ts";
import { Database, type Session, type Statement } from "./database.ts";
import { type Odds, Operations } from "./operations.ts";
import { never, type Process } from "./process.ts";

/** A rule that a schedule broke. */
export class Violation extends Error {
  readonly rule: string;
  constructor(rule: string, detail: string) {
    super(`${rule}: ${detail}`);
    this.rule = rule;
  }
}

const START = 1_800_000_000_000;

/** What the processes of one schedule share: time, database, and what they do outside themselves. */
export class World {
  readonly choices: Choices;
  readonly clock = new Clock(START);
  readonly db: Database;
  readonly operations: Operations;
  readonly processes: Process[] = [];
  /** Handlers of events: each has to succeed at least once. */
  readonly deliveries: ((process: Process) => Promise<void>)[] = [];
  /** The schedule in text, if it is wanted. */
  readonly trace: string[] | undefined;
  /** No more faults and requests: all has to come to rest. */
  settling = false;
  /** The first one. */
  violation: Violation | undefined;

  constructor(options: {
    choices: Choices;
    odds: Odds;
    statements: Readonly<Record<string, Statement>>;
    onCommit: (session: Session) => void;
    traced: boolean;
  }) {
    const { choices, odds, statements, onCommit, traced } = options;
    this.choices = choices;
    this.trace = traced ? [] : undefined;
    let last = 0;
    // Statements take time: two that write one row never see the same.
    const clock = () => {
      last = Math.max(last + 1, this.clock.now);
      return last;
    };
    const onUnknown = (name: string) => this.violate("each statement has a mirror", name);
    this.db = new Database({ now: () => this.clock.now, clock, onCommit, statements, onUnknown });
    this.operations = new Operations(this, odds);
  }

  violate(rule: string, detail: string): void {
    this.violation ??= new Violation(rule, detail);
  }

  note(text: string): void {
    this.trace?.push(`${((this.clock.now - START) / 1000).toFixed(3).padStart(9)} ${text}`);
  }

  /** Ends a process at once; what it waits for never comes. */
  kill(process: Process): Promise<never> {
    process.dead = true;
    for (const session of process.sessions) session.abort();
    process.connection?.close();
    this.operations.drop(process);
    this.processes.splice(this.processes.indexOf(process), 1);
    return never;
  }

  /** Has a process handle an event, at least once: what a process that died had begun is handled again. */
  deliver(process: Process): void {
    const { choices, deliveries, settling } = this;
    const handle = deliveries[choices.below(deliveries.length)]!;
    const twice = !settling && choices.chance(0.1);
    handle(process).then(
      () => {
        const index = deliveries.indexOf(handle);
        if (index >= 0 && !twice) deliveries.splice(index, 1);
      },
      () => {},
    );
  }

  /** Commits a transaction and notifies every process that listens. */
  commit(session: Session): void {
    session.commit();
    if (!session.notifies) return;
    for (const process of this.processes)
      if (process.connection?.listens)
        this.operations.deliver(process, "notification", () => process.connection?.emit("notification"));
  }
}
