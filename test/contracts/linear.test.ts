import { globSync, readFileSync } from "node:fs";
import { stripTypeScriptTypes } from "node:module";
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import { type Node, parse } from "acorn";
import { full } from "acorn-walk";
import { checkSync } from "recheck";
import { expect, test } from "vitest";
import { sample } from "../../services/kit/testing/sample.ts";
import { type Hostile, readers } from "./hostile-text.ts";

const root = join(import.meta.dirname, "../..");
const isTest = /\.test\.ts$|testing/;
const sources = globSync(["{services,gateway,deploy}/**/*.ts"], { cwd: root })
  .filter((file) => !file.includes("node_modules") && !isTest.test(file))
  .sort();

/** Linear patterns take seconds in all; a quadratic one takes an hour for one megabyte. */
const END_MS = 300_000;
/** Characters read decide what is slow, not the time that reading them takes: a busy machine is no slow pattern. */
const STEPS_ALONE = { seedingTimeout: null, incubationTimeout: null, attackTimeout: null };

type Pattern = { place: string; source: string; flags: string };

/**
 * Examples of the patterns that are built from text when a process starts. Every other pattern must be a literal, which
 * a reader and this test can check.
 */
const dynamic: Record<string, string> = {
  "gateway/http/app.ts": "^/v1/accounts/[^/]+/projects/[^/]+/docs/.*$",
};

const patterns: Pattern[] = Object.entries(dynamic).map(([place, source]) => ({ place, source, flags: "" }));
const made: string[] = [];
for (const file of sources) {
  const code = stripTypeScriptTypes(readFileSync(join(root, file), "utf8"));
  full(parse(code, { ecmaVersion: "latest", sourceType: "module", locations: true }), (node: Node) => {
    const place = `${file}:${node.loc?.start.line}`;
    const { regex, callee } = node as {
      regex?: { pattern: string; flags: string };
      callee?: { name?: string };
    };
    if (regex) patterns.push({ place, source: regex.pattern, flags: regex.flags });
    if (callee?.name === "RegExp") made.push(file);
  });
}
for (const file of globSync("proto/berth/**/*.proto", { cwd: root })) {
  const text = readFileSync(join(root, file), "utf8");
  for (const [, source] of text.matchAll(/\.matches\('([^']+)'\)/g))
    patterns.push({ place: file, source: source!.replaceAll("\\\\", "\\"), flags: "" });
}

test(
  "every regular expression of the sources is linear in the length of what it is given",
  () => {
    expect(patterns.length).toBeGreaterThan(150);
    const slow = patterns.flatMap(({ place, source, flags }) => {
      const found = checkSync(source, flags, { timeout: END_MS, ...STEPS_ALONE });
      if (found.status === "safe") return [];
      const why = found.status === "unknown" ? found.error.kind : found.complexity.summary;
      return `${place} /${source}/${flags}: ${found.status}, ${why} (${found.checker})`;
    });
    expect(slow).toEqual([]);
  },
  END_MS,
);

test("regular expressions are literals, but for those that are listed here", () => {
  expect(made).toEqual(Object.keys(dynamic));
});

const fed = sample("regular expressions that are fed a megabyte", patterns, 60);

test(
  "a hostile megabyte is read at once by every regular expression and all that reads text",
  async () => {
    const progress = new SharedArrayBuffer(4);
    const workerData: Hostile = {
      patterns: fed.map(({ source, flags }) => ({ source, flags })),
      progress,
    };
    const worker = new Worker(join(import.meta.dirname, "hostile-text.ts"), { workerData, execArgv: [] });
    const names = [...fed.map(({ place, source }) => `${place} /${source}/`), ...Object.keys(readers)];
    const underWay = () => names[new Int32Array(progress)[0]!];
    const end = setTimeout(() => void worker.terminate(), END_MS);
    const code = await new Promise((resolve, reject) => worker.on("exit", resolve).on("error", reject));
    clearTimeout(end);
    expect(code === 0 ? undefined : underWay()).toBeUndefined();
  },
  END_MS + 30_000,
);
