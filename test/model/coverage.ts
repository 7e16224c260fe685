import { readFileSync } from "node:fs";
import { Session } from "node:inspector";
import { stripTypeScriptTypes } from "node:module";
import { type Node, parse } from "acorn";
import { full } from "acorn-walk";
import { urlOf } from "./faults/seed.ts";

/** The files whose branches are counted: what decides, and what acts on it. */
export const COVERED = [
  "reconcile/plan.ts",
  "reconcile/perform.ts",
  "reconcile/reconcile-service.ts",
  "reconcile/tear-down.ts",
  "reconcile/resync.ts",
  "releases/apply/apply-release.ts",
  "releases/apply/apply-decision.ts",
  "releases/apply/record-applied.ts",
  "releases/adjust-release.ts",
  "releases/record-status.ts",
  "releases/lease-lock.ts",
  "variables/early-variables.ts",
  "releases/apply/to-release.ts",
] as const;

/** How often each branch of a file was taken, in the order of `findBranches`. */
export type Counts = Record<string, number[]>;

/** Runs as often as `at` does, less what `but` does: the way past an `if`, or past the right side of `&&`. */
type Branch = { line: number; text: string; at: number; but?: number };
type Range = { startOffset: number; endOffset: number; count: number };
type Scripts = { result: { url: string; functions: { ranges: Range[] }[] }[] };

/** Counts this thread's branches from now on, of files that are not loaded yet; returns what ends that. */
export function startCoverage(): () => Counts {
  const session = new Session();
  session.connect();
  session.post("Profiler.enable");
  session.post("Profiler.startPreciseCoverage", { callCount: true, detailed: true });
  return () => {
    let scripts: Scripts["result"] = [];
    // Answered before `post` returns.
    session.post("Profiler.takePreciseCoverage", (error, taken) => {
      if (error) throw error;
      scripts = (taken as Scripts).result;
    });
    session.disconnect();
    return Object.fromEntries(COVERED.map((file) => [file, countBranches(file, scripts)]));
  };
}

/** Returns the sums of two counts. */
export function addCounts(one: Counts | undefined, other: Counts | undefined): Counts | undefined {
  if (!one || !other) return one ?? other;
  const sum = (file: string) => one[file]!.map((count, at) => count + other[file]![at]!);
  return Object.fromEntries(COVERED.map((file) => [file, sum(file)]));
}

/** Returns for people how many branches of each file were taken, and those that were not. */
export function describeCoverage(counts: Counts): string {
  const lines: string[] = [];
  for (const file of COVERED) {
    const branches = findBranches(file);
    const missed = branches.filter((_, at) => counts[file]![at] === 0);
    lines.push(`${file}: ${branches.length - missed.length} of ${branches.length} branches taken`);
    for (const { line, text } of missed) lines.push(`${String(line).padStart(6)}  ${text}`);
  }
  return lines.join("\n");
}

function countBranches(file: string, scripts: Scripts["result"]): number[] {
  const script = scripts.find(({ url }) => url === urlOf(file).href);
  const ranges = (script?.functions ?? []).flatMap((one) => one.ranges);
  // Ranges are nested: the innermost one counts.
  ranges.sort((one, other) => one.endOffset - one.startOffset - (other.endOffset - other.startOffset));
  const count = (offset: number) =>
    ranges.find(({ startOffset, endOffset }) => startOffset <= offset && offset < endOffset)?.count ?? 0;
  return findBranches(file).map(({ at, but }) =>
    Math.max(0, count(at) - (but === undefined ? 0 : count(but))),
  );
}

/** Returns the branches of a file: functions, bodies of loops, and both ways of what is decided. */
function findBranches(file: string): Branch[] {
  const code = stripTypeScriptTypes(readFileSync(urlOf(file), "utf8"));
  const found: Branch[] = [];
  const take = (node: Node) =>
    found.push({ line: lineOf(code, node.start), text: textOf(code, node), at: node.start });
  const pass = (from: Node, past: Node, text: string) =>
    found.push({ line: lineOf(code, from.start), text, at: from.start, but: past.start });
  full(parse(code, { ecmaVersion: "latest", sourceType: "module" }), (node: Node) => {
    const { test, consequent, alternate, body, operator, left, right } = node as Parts;
    if (/Function/.test(node.type) || /^(For|While|DoWhile|Catch)/.test(node.type)) take(body!);
    else if (node.type === "SwitchCase") take((consequent as Node[])[0] ?? node);
    else if (node.type === "LogicalExpression") {
      const before = (left as Parts).operator === operator ? (left as Parts).right! : left!;
      take(right!);
      pass(before, right!, `${textOf(code, before)}, and no more of ${operator}`);
    } else if (/^(If|Conditional)/.test(node.type)) {
      take(consequent as Node);
      if (alternate) take(alternate);
      else pass(node, consequent as Node, `not ${textOf(code, test!)}`);
    }
  });
  return found.sort((one, other) => one.at - other.at || (one.but ?? 0) - (other.but ?? 0));
}

type Parts = Node & {
  test?: Node;
  consequent?: Node | Node[];
  alternate?: Node | null;
  body?: Node;
  operator?: string;
  left?: Node;
  right?: Node;
};

const lineOf = (code: string, offset: number) => code.slice(0, offset).split("\n").length;

function textOf(code: string, { start, end }: Node): string {
  const text = code.slice(start, end).replace(/\s+/g, " ");
  return text.length > 90 ? `${text.slice(0, 90)}…` : text;
}
