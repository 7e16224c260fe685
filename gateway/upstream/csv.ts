import type { Table } from "../routing/table.ts";

/** The type of a table, also in an Accept header. */
export const CSV = "text/csv";

type Row = Record<string, unknown>;

/** Returns the list of a JSON response as a table (RFC 4180) with a header row; what a message lacks is an empty cell. */
export function toCsv({ member, columns }: Table, body: Buffer): Buffer {
  const rows = ((JSON.parse(body.toString()) as Record<string, Row[] | undefined>)[member] ?? []).map((row) =>
    columns.map((column) => cell(row[column])),
  );
  return Buffer.from([columns, ...rows].map((cells) => `${cells.join(",")}\r\n`).join(""));
}

/** Programs for tables would read a text that begins so as a formula. */
const FORMULA = /^[=+\-@\t\r]/;

// Numbers are written out, as 0.000000001, because not every program knows 1e-9.
const NUMBER = new Intl.NumberFormat("en-US", { useGrouping: false, maximumFractionDigits: 20 });

function cell(value: unknown): string {
  if (value === undefined || value === null) return "";
  if (typeof value === "number") return NUMBER.format(value);
  const text = String(value);
  const safe = FORMULA.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
