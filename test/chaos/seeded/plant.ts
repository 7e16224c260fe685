/** A change of a file of the product: a text that it has exactly once, and what it becomes. */
export type Change = { file: string; from: string; to: string };

/** Returns the source with changes in it. Throws when a text is not there exactly once: then the product has changed. */
export function plant(source: string, changes: Change[]): string {
  let planted = source;
  for (const { file, from, to } of changes) {
    const parts = planted.split(from);
    if (parts.length !== 2) throw new Error(`${file} has ${parts.length - 1} times, not once:\n${from}`);
    planted = parts.join(to);
  }
  return planted;
}
