import { registerHooks } from "node:module";

/** A change of the deployer's code: what stands there exactly once is replaced. */
export type Edit = {
  /** In services/deployer. */
  file: string;
  from: string;
  to: string;
};

export const urlOf = (file: string) => new URL(`../../../services/deployer/${file}`, import.meta.url);

/**
 * Has this thread load the deployer's code with these changes; to be called before it is loaded. Returns what throws
 * unless all of them were made.
 */
export function seedFaults(edits: readonly Edit[]): () => void {
  const made = new Set<Edit>();
  registerHooks({
    load(url, context, nextLoad) {
      const loaded = nextLoad(url, context);
      const own = edits.filter(({ file }) => urlOf(file).href === url);
      if (own.length === 0) return loaded;
      let source = Buffer.from(loaded.source as Uint8Array).toString();
      for (const edit of own) {
        source = applyEdit(source, edit);
        made.add(edit);
      }
      return { ...loaded, source };
    },
  });
  return () => {
    const missed = edits.find((edit) => !made.has(edit));
    if (missed) throw new Error(`${missed.file} was not loaded`);
  };
}

/** Returns code with a change. Throws unless what is replaced stands there exactly once. */
export function applyEdit(source: string, { file, from, to }: Edit): string {
  const [before, after, ...more] = source.split(from);
  if (after === undefined || more.length > 0) throw new Error(`${file} has not exactly once: ${from}`);
  return before + to + after;
}
