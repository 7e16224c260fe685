const LOCALE = document.documentElement.lang || "en";
const RELATIVE = new Intl.RelativeTimeFormat(LOCALE, { numeric: "auto" });
const EXACT = new Intl.DateTimeFormat(LOCALE, { dateStyle: "medium", timeStyle: "medium" });

const UNITS = [
  ["second", 60],
  ["minute", 60],
  ["hour", 24],
  ["day", 30],
  ["month", 12],
  ["year", Number.POSITIVE_INFINITY],
] as const;

/** Returns how long ago a time was, in words. */
export function ago(time: string, now = Date.now()): string {
  let amount = Math.min(0, Math.round((Date.parse(time) - now) / 1_000));
  for (const [unit, size] of UNITS) {
    if (Math.abs(amount) < size) return RELATIVE.format(amount, unit);
    amount = Math.round(amount / size);
  }
  return time;
}

export const exactly = (time: string) => EXACT.format(new Date(time));

/** Returns a duration as people read it: 8 s, 2 min 5 s, 3 h 12 min. */
export function lasting(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1_000));
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${seconds % 60} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** Returns the start of a commit's hash. */
export const short = (commit: string) => commit.slice(0, 8);
