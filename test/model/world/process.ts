import type { startServiceReconciler } from "../../../services/deployer/reconcile/reconciler.ts";
import type { RuntimeStatus } from "../../../services/deployer/runtime/port.ts";
import type { EarlyVariables } from "../../../services/deployer/variables/early-variables.ts";
import type { Session } from "./database.ts";

/** What an operation of a dead process returns. */
export const never = new Promise<never>(() => {});

/** The connection by which a process holds its advisory lock and hears notifications. */
export type Connection = {
  readonly listens: boolean;
  emit(event: string): void;
  close(): void;
  end(): Promise<void>;
};

/** One process of the deployer: the real reconciler over simulated surroundings. */
export class Process {
  readonly name: string;
  readonly sessions = new Set<Session>();
  readonly watchers = new Set<(status: RuntimeStatus) => void>();
  connection: Connection | undefined;
  /** Builds that it follows. */
  builds = 0;
  dead = false;
  paused = false;
  // biome-ignore lint/suspicious/noExplicitAny: a stand-in of pg.Pool
  pool: any;
  early: EarlyVariables | undefined;
  reconciler: ReturnType<typeof startServiceReconciler> | undefined;

  constructor(name: string) {
    this.name = name;
  }
}
