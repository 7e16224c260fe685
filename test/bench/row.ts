import type { Platform } from "./platform.ts";

/** One figure; `goal` is a bound such as ">= 0.7" or "<= 4", `detail` says what it is made of. */
export type Figure = { name: string; value: number; unit: string; goal: string; detail?: string };
export type Row = Figure & { ok: boolean };
export type Bench = { names: string[]; run: (platform: Platform) => Promise<Figure[]> };

/** Rounds a figure and says whether it meets its goal. */
export function judge(figure: Figure): Row {
  const [, comparison, bound] = /^(<=|>=) ([\d.]+)$/.exec(figure.goal) ?? [];
  if (!comparison) throw new Error(`${figure.name}: "${figure.goal}" is not a goal`);
  const value = Math.round(figure.value * 100) / 100;
  return { ...figure, value, ok: comparison === "<=" ? value <= Number(bound) : value >= Number(bound) };
}

type Printed = { earlier?: Row[]; width?: number; seconds?: number };

/** Prints rows as a table, each beside that of an earlier run, and the last with how long all of them took. */
export function print(rows: Row[], { earlier = [], width = 0, seconds }: Printed = {}): void {
  const padding = Math.max(width, ...rows.map((row) => row.name.length));
  for (const [at, { name, value, unit, goal, ok, detail }] of rows.entries()) {
    const before = earlier.find((row) => row.name === name);
    const was = before ? `, was ${before.value}: ${changeOf(before.value, value)}` : "";
    const took = seconds !== undefined && at === rows.length - 1 ? `; took ${seconds.toFixed(0)} s` : "";
    process.stdout.write(
      `${ok ? "ok  " : "MISS"}  ${name.padEnd(padding)}  ${value} ${unit}  (goal ${goal}${was}${took})\n`,
    );
    if (detail) process.stdout.write(`      ${detail}\n`);
    if (detail && before?.detail) process.stdout.write(`      was ${before.detail}\n`);
  }
}

function changeOf(before: number, now: number): string {
  const percent = Math.round((now / before - 1) * 100);
  return `${percent < 0 ? "" : "+"}${percent} %`;
}

/** Returns the median. */
export function median(values: number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

/** Measures three times and returns the least of each figure: what else the machine does only adds to them. */
export async function quietest(measure: () => Promise<number[]>): Promise<number[]> {
  const all = [await measure(), await measure(), await measure()];
  return all[0]!.map((_, i) => Math.min(...all.map((figures) => figures[i]!)));
}
