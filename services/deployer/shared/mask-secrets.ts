const MASK = "***";

/**
 * Returns a function that replaces the values wherever they occur; overlapping occurrences are replaced together. The
 * lines of a value with several lines count as values too. Its time is linear in the text, whatever the values are.
 */
export function maskSecrets(values: readonly string[]): (text: string) => string {
  const parts = values
    .flatMap((value) => [value, ...value.split(/\r?\n/)])
    .filter((part) => part.trim() !== "");
  if (parts.length === 0) return (text) => text;
  const search = createSearch(new Set(parts));
  return (text) => {
    let masked = "";
    let from = 0;
    for (const { start, end } of search(text)) {
      masked += text.slice(from, start) + MASK;
      from = end;
    }
    return masked + text.slice(from);
  };
}

type Range = { start: number; end: number };

const ROOT = 0;

/**
 * Builds the automaton of Aho and Corasick; returns a function that finds the ranges covered by the words in one pass, in
 * order and merged where they overlap.
 */
function createSearch(words: Iterable<string>): (text: string) => Range[] {
  const edges = new Map<number, number>();
  const edge = (node: number, char: number) => edges.get(node * 0x10000 + char);
  const parents = [ROOT];
  const chars = [0];
  const depths = [0];
  /** The length of the longest word that ends at a node. */
  const longest = [0];
  for (const word of words) {
    let node = ROOT;
    for (let at = 0; at < word.length; at++) {
      const char = word.charCodeAt(at);
      let next = edge(node, char);
      if (next === undefined) {
        next = parents.push(node) - 1;
        chars.push(char);
        depths.push(at + 1);
        longest.push(0);
        edges.set(node * 0x10000 + char, next);
      }
      node = next;
    }
    longest[node] = word.length;
  }

  /** For each node, the node of the longest proper suffix of its text. */
  const fallbacks = new Uint32Array(parents.length);
  const step = (from: number, char: number): number => {
    for (let node = from; ; node = fallbacks[node]!) {
      const next = edge(node, char);
      if (next !== undefined) return next;
      if (node === ROOT) return ROOT;
    }
  };
  for (const node of nodesByDepth(depths)) {
    if (depths[node]! > 1) fallbacks[node] = step(fallbacks[parents[node]!]!, chars[node]!);
    if (longest[node] === 0) longest[node] = longest[fallbacks[node]!]!;
  }

  return (text) => {
    const found: Range[] = [];
    for (let at = 0, node = ROOT; at < text.length; at++) {
      node = step(node, text.charCodeAt(at));
      if (longest[node] === 0) continue;
      const range = { start: at + 1 - longest[node]!, end: at + 1 };
      while (found.length > 0 && found.at(-1)!.end > range.start)
        range.start = Math.min(range.start, found.pop()!.start);
      found.push(range);
    }
    return found;
  };
}

/** Returns all nodes, those nearer to the root first. */
function nodesByDepth(depths: number[]): Uint32Array {
  return Uint32Array.from(depths.keys()).sort((one, other) => depths[one]! - depths[other]!);
}
