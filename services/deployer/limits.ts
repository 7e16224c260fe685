/** What an account may use; these are the free tier's (decisions.md 4). */
export const entitlements = { uploadBytes: 250 * 1024 ** 2, buildMs: 15 * 60_000 };

/** Times in ms (decisions.md 3 and 4). */
export const times = {
  queueMs: 30 * 60_000,
  buildMs: entitlements.buildMs,
  applyMs: 5 * 60_000,
  /** Quiet time after a change of variables before services take it. */
  debounceMs: 2_000,
  /** They take it after this long even if changes keep coming. */
  debounceMaxMs: 10_000,
};

export type Times = typeof times;

export const UPLOAD_SECONDS = 900;
export const UPLOAD_TYPE = "application/gzip";
/** An uploaded object can be deployed for this long. */
export const UPLOAD_LIVES_MS = 24 * 3_600_000;
/** It is removed later than that: a build may still be reading it. */
export const UPLOAD_SWEEP_MS = UPLOAD_LIVES_MS + 2 * 3_600_000;
