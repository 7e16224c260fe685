/** Deadlines and pauses of the reconciler in milliseconds (docs/deployments.md#deadlines, docs/variables.md#delivery). */
export type Timeouts = {
  /** A deployment has to leave the queue within this time. */
  queueMs: number;
  buildMs: number;
  applyMs: number;
  /** Quiet time after a change of variables before services take it. */
  debounceMs: number;
  /** They take it after this long even if changes keep coming. */
  debounceMaxMs: number;
};

/** The timeouts of every account; how long a build may take is its plan's. */
export const TIMEOUTS: Omit<Timeouts, "buildMs"> = {
  queueMs: 30 * 60_000,
  applyMs: 5 * 60_000,
  debounceMs: 2_000,
  debounceMaxMs: 10_000,
};
