import type { MetricSeries } from "../../../typescript/src/generated/types.ts";
import { command } from "../../command.ts";
import { usage } from "../../failure.ts";
import { timeOf } from "../../option-values.ts";
import { bytes } from "../../terminal/format.ts";
import { printTable } from "../../terminal/table.ts";

const HOUR_MS = 3_600_000;
/** How many steps a line shows, unless a step is given. */
const STEPS = 60;
const BARS = "▁▂▃▄▅▆▇█";

const metrics = command({
  name: "metrics",
  summary: "Show what a service uses, and its requests",
  args: "[SERVICE]",
  arity: [0, 1],
  about: [
    "A line for each series of the last hour: the newest value, the highest, and how it went, oldest first. Metrics are kept for 24 hours.",
  ],
  examples: [
    ["metrics", "of the linked service"],
    ["metrics web --since 24h --step 15m", "of a day"],
  ],
  options: {
    since: {
      kind: "text",
      value: "TIME",
      about: "From then on: 30m, 2h, or a time as 2026-11-25T09:00Z; an hour by default",
    },
    step: { kind: "text", value: "TIME", about: "How much time a value covers: 1m, 15m, 1h" },
  },
  async run({ args: [service], options }, ctx) {
    const { io, signal } = ctx;
    const at = await ctx.at.service(service);
    const from = await timeOf(ctx, at, "--since", options.since);
    const span = from === undefined ? HOUR_MS : Math.max(0, Date.now() - Date.parse(from));
    const step = stepOf(options.step) ?? Math.max(1, Math.ceil(span / STEPS / 60_000)) * 60;
    const berth = await ctx.berth();
    const found = await berth.metrics.get(at, { ...(from && { from }), step }, { signal });
    if (io.json) return io.outJson(found);
    const shown = found.series.filter(({ points }) => points.length > 0);
    if (shown.length === 0) io.out(`Nothing was measured of ${at.service} in this time.`);
    else
      printTable(
        io,
        ["SERIES", "NEWEST", "HIGHEST", `EACH ${step / 60} MIN`],
        shown.map((series) => rowOf(series, Date.parse(found.from), Date.parse(found.to), step * 1_000)),
      );
    const reasons = new Map<string, string[]>();
    for (const { name, message } of found.unavailable)
      reasons.set(message, [...(reasons.get(message) ?? []), name]);
    for (const [message, names] of reasons) io.note(`  ${names.join(", ")}: ${message}`);
    return undefined;
  },
});

function rowOf({ name, unit, points }: MetricSeries, from: number, to: number, stepMs: number): string[] {
  const values = points.map(({ value }) => value);
  const highest = Math.max(...values);
  const byTime = new Map(points.map(({ at, value }) => [Date.parse(at), value]));
  let line = "";
  for (let at = from; at < to; at += stepMs) line += barOf(byTime.get(at), highest);
  return [name, withUnit(values.at(-1)!, unit), withUnit(highest, unit), line.trimEnd()];
}

function barOf(value: number | undefined, highest: number): string {
  if (value === undefined) return " ";
  const share = highest > 0 ? value / highest : 0;
  return BARS[Math.min(BARS.length - 1, Math.floor(share * BARS.length))]!;
}

function withUnit(value: number, unit: string): string {
  if (unit === "bytes") return bytes(Math.round(value));
  if (unit === "milliseconds") return `${Math.round(value)} ms`;
  return unit === "cores" ? `${value.toFixed(2)} cores` : String(value);
}

function stepOf(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const [, amount, unit] = /^(\d{1,4})([mh])$/.exec(text) ?? [];
  const seconds = Number(amount) * (unit === "h" ? 3_600 : 60);
  if (!amount || seconds < 60 || seconds > 86_400)
    throw usage(`--step is 1m to 24h, such as 15m, not ${JSON.stringify(text)}.`, "berth metrics --step 15m");
  return seconds;
}

export const commands = [metrics];
