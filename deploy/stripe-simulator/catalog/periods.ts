import type Stripe from "stripe";

export type Period = { start: number; end: number };
type Interval = Pick<Stripe.Price.Recurring, "interval" | "interval_count">;

const DAY_SECONDS = 24 * 60 * 60;

/** Returns the time `times` intervals after an anchor; a day that a month does not have becomes its last day (UTC). */
export function addIntervals(anchor: number, { interval, interval_count }: Interval, times: number): number {
  const count = times * interval_count;
  if (interval === "day") return anchor + count * DAY_SECONDS;
  if (interval === "week") return anchor + count * 7 * DAY_SECONDS;
  const date = new Date(anchor * 1000);
  const day = date.getUTCDate();
  date.setUTCDate(1);
  date.setUTCMonth(date.getUTCMonth() + count * (interval === "year" ? 12 : 1));
  const lastDay = new Date(Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 0)).getUTCDate();
  date.setUTCDate(Math.min(day, lastDay));
  return Math.floor(date.getTime() / 1000);
}

/** Returns the period, counted from an anchor, that contains a time. */
export function periodAt(anchor: number, recurring: Interval, time: number): Period {
  let times = 0;
  while (addIntervals(anchor, recurring, times + 1) <= time) times++;
  return { start: addIntervals(anchor, recurring, times), end: addIntervals(anchor, recurring, times + 1) };
}
