const RFC3339 = /^(\d{4})-(\d{2})-(\d{2})T(\d{2}):(\d{2}):(\d{2})(?:\.\d{1,9})?(?:Z|([+-])(\d{2}):(\d{2}))$/;
const DAYS = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
const FIRST = Date.parse("0001-01-01T00:00:00Z");
const LAST = Date.parse("9999-12-31T23:59:59.999Z");

/**
 * Returns why a text is no RFC 3339 time, or undefined: it has another form (`invalid_type`), or no such time exists
 * (`out_of_range`), such as 30 February, 24:00, a leap second or year 0 (docs/conventions.md#times).
 */
export function wrongTime(text: string): { reason: string; message: string } | undefined {
  const parts = RFC3339.exec(text);
  if (!parts) return { reason: "invalid_type", message: "must be a time such as 2026-11-20T10:00:00Z" };
  const outOf = (message: string) => ({ reason: "out_of_range", message });
  const number = (index: number) => Number(parts[index] ?? 0);
  const [year, month] = [number(1), number(2)];
  const limits: [part: string, value: number, from: number, to: number, digits: number][] = [
    ["year", year, 1, 9999, 4],
    ["month", month, 1, 12, 2],
    ["day", number(3), 1, daysIn(year, month), 2],
    ["hour", number(4), 0, 23, 2],
    ["minute", number(5), 0, 59, 2],
    ["second", number(6), 0, 59, 2],
    ["offset's hour", number(8), 0, 23, 2],
    ["offset's minute", number(9), 0, 59, 2],
  ];
  const bad = limits.find(([, value, from, to]) => value < from || value > to);
  if (bad) {
    const [from, to] = [bad[2], bad[3]].map((limit) => String(limit).padStart(bad[4], "0"));
    return outOf(`is not a time that exists: its ${bad[0]} must be from ${from} to ${to}`);
  }
  const instant = Date.parse(text);
  if (instant < FIRST || instant > LAST) return outOf("must be in the years 0001 to 9999 of UTC");
  return undefined;
}

function daysIn(year: number, month: number): number {
  const leap = (year % 4 === 0 && year % 100 !== 0) || year % 400 === 0;
  return month === 2 && leap ? 29 : (DAYS[month - 1] ?? 31);
}
