import { refuse } from "../../kit/rpc/refusals.ts";
import { type Addons, resolve, resolvedSize, type VariableRow } from "../resolve/resolve.ts";
import type { NewVariable, Replaced } from "../rows/sql.ts";
import type { Growth } from "../scopes/totals-sql.ts";

/** Maximum size of a resolved set: UTF-8 of all names and values (docs/variables.md#limits). */
export const MAX_SET_BYTES = 512 * 1024;

/** Throws 422 for a batch that is too large by itself, before any of it is sealed. */
export function refuseLargeBatch(entries: { name: string; value?: string | undefined }[]): void {
  const bytes = entries.reduce(
    (sum, { name, value = "" }) => sum + name.length + Buffer.byteLength(value),
    0,
  );
  if (bytes > MAX_SET_BYTES) throw tooLarge("The resolved set of any service", bytes);
}

function tooLarge(what: string, bytes: number) {
  const message = `${what} would have ${bytes} bytes; at most ${MAX_SET_BYTES} are allowed.`;
  return refuse(422, "validation_failed", message, {
    details: [{ path: "", reason: "resolved_set_too_large", message }],
    context: { limit: MAX_SET_BYTES },
  });
}

/** Rows to store and names to remove in one scope, and the current rows of those names. */
export type Write = { set: NewVariable[]; unset: string[]; replaced: Replaced[] };

/** A row with the size of its literal. */
export type SizedRow = Omit<VariableRow, "id" | "value" | "sensitive"> & { size: number };

/** Returns the most that a write adds to any set, without subtracting what it removes. */
export function growthOf({ set, replaced }: Write): Growth {
  const before = new Map(replaced.map((row) => [row.name, row]));
  const growth = { bytes: 0, refs: 0, widest: 0 };
  for (const row of set) {
    const old = before.get(row.name);
    growth.bytes += old ? Math.max(0, row.size - old.size) : row.name.length + row.size;
    if (row.sealed === null && (!old || old.literal)) growth.refs++;
    growth.widest = Math.max(growth.widest, row.size);
  }
  return growth;
}

/** Returns the rows of a chain after a write to one of its scopes. */
export function afterWrite(
  rows: SizedRow[],
  at: Pick<SizedRow, "scope" | "scopeId">,
  write: Write,
): SizedRow[] {
  const touched = new Set([...write.unset, ...write.set.map((row) => row.name)]);
  const kept = rows.filter((row) => row.scopeId !== at.scopeId || !touched.has(row.name));
  return [...kept, ...write.set.map((row) => ({ ...row, ...at }))];
}

/** Returns the size of what a chain resolves to, from sizes alone; `addons` carry sizes as values. */
export function sizeOf(rows: SizedRow[], addons: Addons<number>): number {
  const sized = rows.map((row) => ({ ...row, id: "", sensitive: false, value: row.size }));
  const { data } = resolve({ rows: sized, addons });
  const values = data.reduce((sum, entry) => sum + entry.value!, 0);
  return values + resolvedSize(data.map(({ name }) => ({ name })));
}

/**
 * Throws 422 for a write that makes the set of a chain too large. A set that is too large already, because an addon's
 * keys grew, may shrink step by step.
 */
export function refuseLarger(
  rows: SizedRow[],
  at: Pick<SizedRow, "scope" | "scopeId">,
  write: Write,
  addons: Addons<number>,
  whose: string,
): void {
  const after = sizeOf(afterWrite(rows, at, write), addons);
  if (after <= MAX_SET_BYTES || after <= sizeOf(rows, addons)) return;
  throw tooLarge(`The resolved set of ${whose}`, after);
}
