import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { programs } from "../../deploy/local/programs/programs.ts";
import { upstreamNames } from "../../gateway/upstreams.ts";

// A new process is a line in several files of the chart. These checks need no helm.

const read = (path: string) => readFileSync(join(import.meta.dirname, "../../helm/berth", path), "utf8");
const names = programs.map(({ name }) => name).sort();

/** Returns the first captures of all matches, sorted. */
const found = (text: string, pattern: RegExp) => [...text.matchAll(pattern)].map(([, name]) => name!).sort();

test("the chart runs the processes that npm start runs, each with its number of connections", () => {
  const text = read("templates/_processes.tpl");
  expect(found(text, /^- name: (\w+)$/gm)).toEqual(names);
  expect(found(text, /^- name: (\w+)\n {2}calls: .*\n {2}connections: \d+$/gm)).toEqual(names);
});

test("the gateway may call every process that it has routes for", () => {
  const calls = /^- name: gateway\n {2}calls: \[(.*)\]$/m.exec(read("templates/_processes.tpl"))![1]!;
  expect(calls.split(", ").sort()).toEqual([...upstreamNames].sort());
});

test("each process has its settings in the chart's values, and an alert on its absence", () => {
  const values = /^processes:\n((?: {2}.*\n)+)/m.exec(read("values.yaml"))![1]!;
  expect(found(values, /^ {2}(\w+):/gm)).toEqual(names);
  const alert = /alert: BerthProcessMissing\n([\s\S]*?)\n {8}for:/.exec(read("alerts.yaml"))![1]!;
  expect(found(alert, /absent\(.*service="(\w+)"/g)).toEqual(names);
});
