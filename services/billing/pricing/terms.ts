import type { Cadence } from "./plans.ts";

// Times are whole seconds since 1970.

const DAY_SECONDS = 86_400;

/** Returns how many months a term of a subscription has. */
export const termMonths = (cadence: Cadence) => (cadence === "annual" ? 12 : 1);

/** Returns the same time some months later, UTC; a day that the month does not have is its last one. */
export function monthsAfter(at: number, months: number): number {
  const from = new Date(at * 1_000);
  const [year, month] = [from.getUTCFullYear(), from.getUTCMonth() + months];
  const lastDay = new Date(Date.UTC(year, month + 1, 0)).getUTCDate();
  const midnight = Date.UTC(year, month, Math.min(from.getUTCDate(), lastDay)) / 1_000;
  return midnight + (at % DAY_SECONDS);
}
