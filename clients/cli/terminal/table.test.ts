import { expect, test } from "vitest";
import { printTable } from "./table.ts";
import type { Terminal } from "./terminal.ts";

/** Returns the lines of a table on a terminal that has so many columns. */
function linesOf(width: number, head: string[], rows: string[][]): string[] {
  const lines: string[] = [];
  const io = {
    width,
    style: (_: string, text: string) => text,
    out: (line: string) => void lines.push(line),
  };
  printTable(io as unknown as Terminal, head, rows);
  return lines;
}

test("columns are aligned by what a terminal shows: two columns for wide characters, one with its accents", () => {
  const rows = [
    ["Ada", "owner"],
    ["田中太郎", "editor"],
    ["👩‍🚀 Zoe\u0308", "viewer"],
  ];
  expect(linesOf(0, ["NAME", "ROLE"], rows)).toEqual([
    "NAME      ROLE",
    "Ada       owner",
    "田中太郎  editor",
    "👩‍🚀 Zoe\u0308    viewer",
  ]);
});

test("a line is cut at the edge of the terminal, never in the middle of a character", () => {
  expect(linesOf(6, ["NAME"], [["田中太郎"], ["👩‍🚀👩‍🚀👩‍🚀👩‍🚀"], ["abcdef"]])).toEqual([
    "NAME",
    "田中…",
    "👩‍🚀👩‍🚀…",
    "abcdef",
  ]);
});
