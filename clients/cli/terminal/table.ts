import { stripVTControlCharacters } from "node:util";
import type { Terminal } from "./terminal.ts";

/** What a terminal shows in two columns: characters of East Asia, and pictures. */
const WIDE =
  /^[\p{Script=Han}\p{Script=Hangul}\p{Script=Hiragana}\p{Script=Katakana}\p{Emoji_Presentation}\uFF01-\uFF60]|\uFE0F/u;
const GAP = "  ";
const graphemes = new Intl.Segmenter();

const shownIn = (text: string) =>
  Array.from(graphemes.segment(stripVTControlCharacters(text)), ({ segment }) => ({
    segment,
    columns: WIDE.test(segment) ? 2 : 1,
  }));
const widthOf = (text: string) => shownIn(text).reduce((width, { columns }) => width + columns, 0);

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
  let kept = "";
  let left = width - 1;
  for (const { segment, columns } of shownIn(line)) {
    left -= columns;
    if (left < 0) break;
    kept += segment;
  }
  return `${kept}…`;
}
