import { stripVTControlCharacters } from "node:util";
import type { Terminal } from "./terminal.ts";

const widthOf = (text: string) => [...stripVTControlCharacters(text)].length;
const GAP = "  ";

/** Prints rows as aligned columns under their names. On a terminal the last column is cut at its edge. */
export function printTable(io: Terminal, head: string[], rows: string[][]): void {
  const titles = head.map((title) => io.style("dim", title));
  const all = [titles, ...rows];
  const widths = head.map((_, n) => Math.max(...all.map((row) => widthOf(row[n] ?? ""))));
  for (const row of all) {
    const line = row
      .map((cell, n) => (n === row.length - 1 ? cell : cell + " ".repeat(widths[n]! - widthOf(cell))))
      .join(GAP)
      .trimEnd();
    io.out(io.width > 0 ? cut(line, io.width) : line);
  }
}

function cut(line: string, width: number): string {
  if (widthOf(line) <= width) return line;
  return `${[...stripVTControlCharacters(line)].slice(0, width - 1).join("")}…`;
}
