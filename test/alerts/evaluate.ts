import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { loadYaml } from "@kubernetes/client-node";
import { expect } from "vitest";
import { eventually } from "../../services/kit/testing/testing.ts";
import { findPromtool } from "../support/servers/promtool.ts";

/** The chart's rules, for the release `berth` in the namespace `platform`. */
export const RULES = (await readFile(join(import.meta.dirname, "../../helm/berth/alerts.yaml"), "utf8"))
  .replaceAll("NAMESPACE", "platform")
  .replaceAll("PUBLIC_URL", "https://berth.example.com")
  .replaceAll("FULLNAME", "berth")
  .replaceAll("APPS_PREFIX", "berth")
  .replaceAll("BACKUP_HOURS", "36");

export type Rule = { alert: string; expr: string; annotations: { summary: string } };
export const rules = loadYaml<{ groups: { rules: Rule[] }[] }>(RULES).groups.flatMap((group) => group.rules);

/** Prometheus's tool that evaluates rules, where the machine has one. */
export const promtool = await findPromtool();

/** Runs promtool with the rules in a file; returns what it printed, and fails with it. */
export async function runPromtool(command: string, more: object = {}): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "berth-alerts-"));
  try {
    const [file, given] = [join(folder, "rules.yaml"), join(folder, "test.yaml")];
    await Promise.all([
      writeFile(file, RULES),
      writeFile(given, JSON.stringify({ rule_files: [file], ...more })),
    ]);
    const run = promisify(execFile)(promtool!, [command, "rules", command === "test" ? given : file]);
    return (await run.catch(({ stdout, stderr }) => Promise.reject(new Error(`${stdout}${stderr}`)))).stdout;
  } finally {
    await rm(folder, { recursive: true });
  }
}

/** Reads the metrics of a process until one is as wanted, and returns the whole text. */
export function scraper(read: () => Promise<string>) {
  const until = (name: string, is: (value: number) => boolean) =>
    eventually(`${name} is as wanted`, async () => {
      const text = await read();
      const value = metricIn(text, name);
      return value !== undefined && is(value) && text;
    });
  return {
    until,
    untilZero: (name: string) => until(name, (value) => value === 0),
    /** While something waits that nothing makes younger. */
    async aging(name: string): Promise<string> {
      const age = metricIn(await until(name, (value) => value > 0), name)!;
      return until(name, (value) => value > age);
    },
  };
}

/** What a process said in its metrics before a condition, while it lasted, and after it. */
export type Scrapes = { before: string; during: string; after: string };

/** How long each lasts, in minutes. */
const MINUTES = { before: 30, during: 120, after: 480 };

/**
 * Lets Prometheus evaluate an alert over the metrics that were scraped: it must not fire before the condition, fire while
 * that goes on for two hours, and not fire any longer eight hours after.
 */
export async function expectAlert(alert: string, scrapes: Scrapes): Promise<void> {
  const { expr } = rules.find((rule) => rule.alert === alert)!;
  const firing = `count(ALERTS{alertname="${alert}", alertstate="firing"}) or vector(0)`;
  const at = (minute: number, value: number) => ({
    expr: firing,
    eval_time: `${minute}m`,
    exp_samples: [{ labels: "{}", value }],
  });
  const { before, during, after } = MINUTES;
  const samples = [at(before - 1, 0), at(before + during - 1, 1), at(before + during + after - 1, 0)];
  const test = { interval: "1m", input_series: toSeries(expr, scrapes), promql_expr_test: samples };
  expect(await runPromtool("test", { evaluation_interval: "1m", tests: [test] })).toContain("SUCCESS");
}

type Sample = { name: string; labels: string; value: number };

/** Returns the series of the metrics that an expression names, with a value for each minute. */
function toSeries(expr: string, { before, during, after }: Scrapes) {
  const counters = new Set(
    [...before.matchAll(/^# TYPE (\S+) (?:counter|histogram)$/gm)].map(([, name]) => name),
  );
  const isCounter = (name: string) => counters.has(name.replace(/_(?:bucket|count|sum)$/, ""));
  const [first, then, last] = [before, during, after].map((text) => samplesOf(text, expr));
  const keys = new Set([...first!.keys(), ...then!.keys(), ...last!.keys()]);
  return [...keys].map((key) => {
    const [a, b, c] = [first!.get(key), then!.get(key), last!.get(key)];
    const { name, labels } = (a ?? b ?? c)!;
    const [from, to] = [a?.value, b?.value];
    const grows = isCounter(name) ? (to ?? 0) - (from ?? 0) : agesBy(name, from, to);
    const end = isCounter(name) && to !== undefined ? to + grows * (MINUTES.during - 1) : c?.value;
    const values = [
      ...Array<number | undefined>(MINUTES.before).fill(from),
      ...Array.from({ length: MINUTES.during }, (_, minute) => (to === undefined ? to : to + grows * minute)),
      ...Array<number | undefined>(MINUTES.after).fill(end),
    ];
    const namespace = labels.includes("namespace=") ? "" : 'namespace="platform"';
    const own = [labels, namespace].filter(Boolean).join(",");
    return { series: `${name}{${own}}`, values: values.map((value) => value ?? "_").join(" ") };
  });
}

/** What waits is older by a minute after each minute. A time or a period is no age. */
function agesBy(name: string, from = 0, to = 0): number {
  return /(?<!_timestamp|_period)_seconds$/.test(name) && to > from ? 60 : 0;
}

function samplesOf(text: string, expr: string): Map<string, Sample> {
  const lines = [...text.matchAll(/^([a-z_]+)(?:\{(.*)\})? (\S+)$/gm)];
  const samples = lines.map(([, name, labels, value]) => ({
    name: name!,
    labels: labels ?? "",
    value: Number(value),
  }));
  return new Map(
    samples.filter(({ name }) => expr.includes(`${name}{`)).map((one) => [`${one.name}{${one.labels}}`, one]),
  );
}

/** Returns the value of the metric in the text, summed over its labels; undefined when it is not there. */
export function metricIn(text: string, name: string): number | undefined {
  const found = [...samplesOf(text, `${name}{`).values()];
  return found.length > 0 ? found.reduce((sum, { value }) => sum + value, 0) : undefined;
}
