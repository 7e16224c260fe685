import { appendFileSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { splitOutput } from "./log-collector.ts";
import type { OutputLine } from "./log-segments.ts";
import { type LogStore, openLogStore } from "./log-store.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "berth-logs-"));
});
afterEach(() => rmSync(folder, { recursive: true }));

const line = (n: number, changes: Partial<OutputLine> = {}): OutputLine => ({
  time: Date.UTC(2026, 0, 1) + n,
  stream: "stdout",
  instance: "1.0.abc",
  end: n * 10,
  message: `line ${n}`,
  ...changes,
});
const numbers = async (store: LogStore, limit = 1000, cursor?: string) => {
  const page = await store.page({}, limit, cursor);
  return { ...page, lines: page.lines.map((one) => Number(one.message.split(" ")[1])) };
};

describe("a service's log", () => {
  test("goes on after a hard kill without the half line that it left, and knows how far it had got", async () => {
    const first = openLogStore(folder);
    first.append([line(1), line(2, { stream: "stderr" })]);
    first.close();
    appendFileSync(
      join(folder, readdirSync(folder)[0]!),
      "1767225600003\tstdout\t1.0.abc\t30\tline 3 was nev",
    );
    const second = openLogStore(folder);
    expect(await second.collectedOffsets("1.0.abc")).toEqual({ stdout: 10, stderr: 20 });
    expect(await second.collectedOffsets("1.1.other")).toEqual({ stdout: 0, stderr: 0 });
    second.append([line(3, { time: 0, message: "line 3\twith a tab" })]);
    const { lines } = await second.page({}, 10);
    expect(lines.map((one) => one.message)).toEqual(["line 3\twith a tab", "line 2", "line 1"]);
    expect(lines.map((one) => one.timestamp)).toEqual(
      lines
        .map((one) => one.timestamp)
        .toSorted()
        .reverse(),
    );
    second.close();
  });

  test("keeps the newest segments, and its cursors lead on across them while it grows", async () => {
    const store = openLogStore(folder, { segmentBytes: 4000, segments: 3 });
    for (let n = 1; n <= 1000; n++) store.append([line(n)]);
    expect(readdirSync(folder)).toHaveLength(3);
    const all = await numbers(store);
    expect(all.lines[0]).toBe(1000);
    expect(all.lines.length).toBeGreaterThan(150);
    expect(all.lines).toEqual(Array.from({ length: all.lines.length }, (_, n) => 1000 - n));
    const paged: number[] = [];
    let cursor: string | undefined;
    do {
      const page = await numbers(store, 7, cursor);
      paged.push(...page.lines);
      cursor = page.nextCursor;
    } while (cursor !== undefined);
    expect(paged).toEqual(all.lines);
    const { nextCursor } = await numbers(store, 10);
    for (let n = 1001; n <= 3000; n++) store.append([line(n)]);
    expect(await numbers(store, 10, nextCursor)).toEqual({ lines: [] });
    store.close();
  });

  test("is not led astray by a cursor of another log", async () => {
    const store = openLogStore(folder);
    store.append([line(1), line(2)]);
    for (const offset of [0, 1, 25, 60, 10 ** 12]) {
      for (const one of (await store.page({}, 10, `log:${offset}`)).lines) expect(one.message).toMatch(/^l/);
    }
    store.close();
  });
});

describe("output", () => {
  test("is split into lines without losing a byte, however long they are", () => {
    const piece = fc.oneof(
      fc.string({ unit: "grapheme" }),
      fc.constant("\n"),
      fc.constant("€".repeat(20_000)),
    );
    fc.assert(
      fc.property(fc.array(piece), fc.boolean(), (pieces, final) => {
        const text = pieces.join("").replaceAll("\r", "");
        const bytes = Buffer.from(text);
        const lines = splitOutput(bytes, final);
        const taken = lines.at(-1)?.to ?? 0;
        const expected = bytes.subarray(0, taken).toString().replaceAll("\n", "");
        const rest = bytes.subarray(taken);
        return (
          lines.map((one) => one.message).join("") === expected &&
          lines.every((one) => Buffer.byteLength(one.message) <= 16 * 1024) &&
          (final ? rest.length === 0 : !rest.includes(10) && rest.length <= 16 * 1024)
        );
      }),
    );
  });
});
