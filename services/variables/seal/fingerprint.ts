import { createHmac } from "node:crypto";

/** A variable of a set; without its value when the set was read by names only. */
export type NamedValue = { name: string; value?: string | undefined };

/**
 * Returns the HMAC-SHA256 (hex) over the names and values of a set, in any order: two sets have the same fingerprint under a
 * key exactly when a process would see the same variables. Without the key it reveals nothing of the values.
 * Throws TypeError when an entry has no value, for a set read by names only cannot be compared.
 */
export function fingerprint(data: readonly NamedValue[], key: Parameters<typeof createHmac>[1]): string {
  const pairs = data.map(({ name, value }) => {
    if (value === undefined) throw new TypeError(`the variable ${name} was resolved without its value`);
    return [name, value] as const;
  });
  pairs.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
  return createHmac("sha256", key).update(JSON.stringify(pairs)).digest("hex");
}
