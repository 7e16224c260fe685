/** How often a digest is sent. */
export type Digest = "daily" | "weekly";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
// Digests are sent at 08:00 UTC, weekly ones on Mondays; the first Monday of Unix time was its fifth day.
const SCHEDULES = {
  daily: { every: DAY, first: 8 * HOUR },
  weekly: { every: 7 * DAY, first: 4 * DAY + 8 * HOUR },
};

/** Returns when the last digest before a time was due, and when the next one is; in milliseconds. */
export function windowAt(digest: Digest, at: number): { start: number; next: number } {
  const { every, first } = SCHEDULES[digest];
  const start = first + Math.floor((at - first) / every) * every;
  return { start, next: start + every };
}

/** Returns the key of the window at a time, such as daily:2026-11-20: a user gets one digest per window. */
export function windowKey(digest: Digest, at: number): string {
  return `${digest}:${new Date(windowAt(digest, at).start).toISOString().slice(0, 10)}`;
}

export function isDigest(text: string): text is Digest {
  return Object.hasOwn(SCHEDULES, text);
}
