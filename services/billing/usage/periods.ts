// Times are whole seconds since 1970, and periods begin with their first second and end before `end`.

export type Period = { start: number; end: number };

/** A period of an account's compute item, which is billed; with the plan that it is billed by. */
export type ComputePeriod = Period & { tier: string };

/** A period of an account. Without a tier it is (a part of) a calendar month, which is not billed. */
export type AccountPeriod = Period & { tier?: string };

/**
 * Returns the period of an account at a time: that of its compute item; else the calendar month, UTC, as far as no
 * period of the compute item reaches into it. `billed` are the account's periods of the compute item.
 */
export function periodAt(billed: ComputePeriod[], at: number): AccountPeriod {
  const current = billed.find(({ start, end }) => start <= at && at < end);
  if (current) return current;
  const month = monthOf(at);
  const ended = billed.flatMap(({ end }) => (end <= at ? end : []));
  const following = billed.flatMap(({ start }) => (start > at ? start : []));
  return { start: Math.max(month.start, ...ended), end: Math.min(month.end, ...following) };
}

/** Returns the calendar month, UTC, that contains a time. */
export function monthOf(at: number): Period {
  const date = new Date(at * 1_000);
  const [year, month] = [date.getUTCFullYear(), date.getUTCMonth()];
  return { start: Date.UTC(year, month) / 1_000, end: Date.UTC(year, month + 1) / 1_000 };
}
