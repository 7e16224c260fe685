export type Resource = "disk" | "memory";
/** How short a resource runs. */
export type Level = "ok" | "low" | "urgent";

/** From how many percent in use a resource runs short; `Infinity` for never. */
export type Thresholds = { low: number; urgent?: number };

/** How many percent a resource must be away from the threshold before it counts as well again. */
const MARGIN = 5;
const RANK: Record<Level, number> = { ok: 0, low: 1, urgent: 2 };

/**
 * Returns the level of a resource of which `used` percent are in use, after `before` was announced. It only rises until
 * the resource is clearly well again, so that what goes up and down around a threshold is announced once. Pure.
 */
export function levelOf(before: Level, used: number, { low, urgent = Infinity }: Thresholds): Level {
  // The urgent threshold may be the only one.
  const first = Math.min(low, urgent);
  const measured: Level = used >= urgent ? "urgent" : used >= low ? "low" : "ok";
  if (RANK[measured] > RANK[before]) return measured;
  // Nobody knows that it is well where no threshold says so.
  return Number.isFinite(first) && used < first - MARGIN ? "ok" : before;
}

/** Returns a function that says whether a change has been wanted for `ms` without interruption; undefined is none. */
export function createPatience(ms: number) {
  let wanted: { level: Level; since: number } | undefined;
  return (level: Level | undefined, now: number): boolean => {
    if (level === undefined) wanted = undefined;
    else if (wanted?.level !== level) wanted = { level, since: now };
    return wanted !== undefined && now - wanted.since >= ms;
  };
}
