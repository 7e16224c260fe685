const KB = 1_000;
const MB = 1_000_000;
const GB = 1_000_000_000;

/** Formats a number of bytes: `412 kB`, `1.1 MB`. */
export function bytes(count: number): string {
  if (count < KB) return `${count} B`;
  if (count < MB) return `${Math.round(count / KB)} kB`;
  if (count < GB) return `${(count / MB).toFixed(1)} MB`;
  return `${(count / GB).toFixed(1)} GB`;
}

/** Formats a duration in ms: `6.2 s`, `3 min 20 s`, `2 h 5 min`, `6 days 23 h`. */
export function duration(ms: number): string {
  const seconds = Math.max(0, ms) / 1_000;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(seconds % 60)} s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${minutes % 60} min`;
  return `${Math.floor(hours / 24)} days ${hours % 24} h`;
}

/** Formats how long ago something was, by the clock `now` (ms). */
export function ago(time: string, now: number): string {
  const seconds = Math.max(0, (now - Date.parse(time)) / 1_000);
  if (seconds < 90) return `${Math.round(seconds)} s ago`;
  if (seconds < 90 * 60) return `${Math.round(seconds / 60)} min ago`;
  if (seconds < 36 * 3_600) return `${Math.round(seconds / 3_600)} h ago`;
  return `${Math.round(seconds / 86_400)} days ago`;
}

/** Formats a count with its noun: `1 file`, `3 files`. */
export const count = (n: number, noun: string) => `${n} ${noun}${n === 1 ? "" : "s"}`;

/** Quotes a text for a shell. */
export const shellQuoted = (text: string) => `'${text.replaceAll("'", `'\\''`)}'`;
