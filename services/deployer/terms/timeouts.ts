/** Deadlines and pauses of the reconciler in milliseconds (docs/deployments.md#deadlines, docs/variables.md#delivery). */
export type Timeouts = {
  /** How long a deployment may wait in the queue. */
  queueMs: number;
  buildMs: number;
  applyMs: number;
  /** How long a release command may take. */
  releaseCommandMs: number;
  /** How long variables have to stay unchanged before services take them. */
  debounceMs: number;
  /** Services take changed variables after this time even if changes keep coming. */
  debounceMaxMs: number;
  /** How long changed variables wait at most for a release that is still starting. */
  rolloutMs: number;
};

/** The timeouts of every account; how long a build may take is its plan's. */
export const TIMEOUTS: Omit<Timeouts, "buildMs"> = {
  queueMs: 30 * 60_000,
  applyMs: 5 * 60_000,
  releaseCommandMs: 10 * 60_000,
  debounceMs: 2_000,
  debounceMaxMs: 10_000,
  rolloutMs: 5 * 60_000,
};
