import type { Platform } from "./platform.ts";

/** One figure; `goal` is a bound such as ">= 0.7" or "<= 4". */
export type Figure = { name: string; value: number; unit: string; goal: string };
export type Row = Figure & { ok: boolean };
export type Bench = { names: string[]; run: (platform: Platform) => Promise<Figure[]> };

/** Rounds a figure and says whether it meets its goal. */
export function judge(figure: Figure): Row {
  const [, comparison, bound] = /^(<=|>=) ([\d.]+)$/.exec(figure.goal) ?? [];
  if (!comparison) throw new Error(`${figure.name}: "${figure.goal}" is not a goal`);
  const value = Math.round(figure.value * 100) / 100;
  return { ...figure, value, ok: comparison === "<=" ? value <= Number(bound) : value >= Number(bound) };
}

/** Prints rows as a table. */
export function print(rows: Row[]): void {
  const width = Math.max(...rows.map((row) => row.name.length));
  for (const { name, value, unit, goal, ok } of rows)
    process.stdout.write(
      `${ok ? "ok  " : "MISS"}  ${name.padEnd(width)}  ${value} ${unit}  (goal ${goal})\n`,
    );
}

/** Returns the median. */
export function median(values: number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}
