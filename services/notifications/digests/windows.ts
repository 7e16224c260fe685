/** How often a digest comes. */
export type Digest = "daily" | "weekly";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
// Digests come at 08:00 UTC, weekly ones on Mondays; the first Monday of Unix time was its fifth day.
const RHYTHMS = {
  daily: { every: DAY, first: 8 * HOUR },
  weekly: { every: 7 * DAY, first: 4 * DAY + 8 * HOUR },
};

/** Returns when the latest digest was due at a time, and when the next one is; in milliseconds. */
export function windowAt(digest: Digest, at: number): { start: number; next: number } {
  const { every, first } = RHYTHMS[digest];
  const start = first + Math.floor((at - first) / every) * every;
  return { start, next: start + every };
}

/** Returns the name of the window at a time, such as daily:2026-11-20: a user gets one mail for each. */
export function windowKey(digest: Digest, at: number): string {
  return `${digest}:${new Date(windowAt(digest, at).start).toISOString().slice(0, 10)}`;
}

export function isDigest(text: string): text is Digest {
  return Object.hasOwn(RHYTHMS, text);
}
