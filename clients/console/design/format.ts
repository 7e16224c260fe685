import { serverTime } from "../session/clock.ts";

const LOCALE = document.documentElement.lang || "en";
const RELATIVE = new Intl.RelativeTimeFormat(LOCALE, { numeric: "auto" });
const EXACT = new Intl.DateTimeFormat(LOCALE, { dateStyle: "medium", timeStyle: "medium" });
const EXACT_UTC = new Intl.DateTimeFormat(LOCALE, {
  dateStyle: "medium",
  timeStyle: "medium",
  timeZone: "UTC",
});

const UNITS = [
  ["second", 60],
  ["minute", 60],
  ["hour", 24],
  ["day", 30],
  ["month", 12],
  ["year", Number.POSITIVE_INFINITY],
] as const;

/** What is so little ahead is now: it has just been. */
const SOON_S = 5;

/** Returns how long ago a time was, or in how long it is, in words. */
export function ago(time: string, now = serverTime()): string {
  let amount = Math.round((Date.parse(time) - now) / 1_000);
  if (amount > 0 && amount <= SOON_S) amount = 0;
  for (const [unit, size] of UNITS) {
    if (Math.abs(amount) < size) return RELATIVE.format(amount, unit);
    amount = Math.round(amount / size);
  }
  return time;
}

const CENTS = new Intl.NumberFormat(LOCALE, { style: "currency", currency: "USD" });
const FINE = new Intl.NumberFormat(LOCALE, { style: "currency", currency: "USD", maximumFractionDigits: 4 });
const EXACT_DOLLARS = new Intl.NumberFormat(LOCALE, {
  style: "currency",
  currency: "USD",
  maximumFractionDigits: 9,
});
// Periods of billing begin and end by UTC.
const DAY = new Intl.DateTimeFormat(LOCALE, { dateStyle: "medium", timeZone: "UTC" });

/** Returns an amount of money that is charged, in whole cents. */
export const dollars = (usd: number) => CENTS.format(usd);

/** Returns an amount of compute, which is counted in less than cents. */
export const fineDollars = (usd: number) => FINE.format(usd);

/** Returns an amount of compute as it is counted. */
export const exactDollars = (usd: number) => EXACT_DOLLARS.format(usd);

export const day = (time: string) => DAY.format(new Date(time));

export const exactly = (time: string) => EXACT.format(new Date(time));

export const exactlyUtc = (time: string) => EXACT_UTC.format(new Date(time));

/** Returns the name of the time zone in which times are shown. */
export const timeZone = () => EXACT.resolvedOptions().timeZone;

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

const SIZES = ["B", "KiB", "MiB", "GiB"] as const;

/** Returns a size as people read it: 12 B, 3.4 KiB, 250 MiB. */
export function sized(bytes: number): string {
  let [amount, unit] = [bytes, 0];
  while (amount >= 1_024 && unit < SIZES.length - 1) {
    amount /= 1_024;
    unit++;
  }
  return `${unit === 0 || amount >= 100 ? Math.round(amount) : Number(amount.toFixed(1))} ${SIZES[unit]}`;
}
