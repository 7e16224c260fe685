import { compileGlob } from "./glob.ts";

/** One line of an ignore file. `base` is the folder of the file, as parts of the path from the packed folder. */
type Rule = {
  negated: boolean;
  foldersOnly: boolean;
  /** Receives the parts below the file's folder. */
  matches: (parts: string[]) => boolean;
};

/** The rules of one file, which hold in the folder that the file is in, and below. */
export type Rules = { base: string[]; rules: Rule[] };

/** Reads the lines of an ignore file (gitignore(5)). */
export function parseRules(text: string, base: string[]): Rules {
  const lines = text.replace(/^\uFEFF/, "").split("\n");
  return { base, rules: lines.flatMap((line) => ruleOf(line.replace(/\r$/, "")) ?? []) };
}

function ruleOf(line: string): Rule | undefined {
  let pattern = withoutTrailingSpaces(line);
  if (pattern === "" || pattern.startsWith("#")) return undefined;
  const negated = pattern.startsWith("!");
  if (negated) pattern = pattern.slice(1);
  const foldersOnly = pattern.endsWith("/");
  if (foldersOnly) pattern = pattern.slice(0, -1);
  if (pattern === "") return undefined;
  // A slash that is not at the end ties the pattern to the folder of its file.
  const tied = pattern.includes("/");
  const glob = compileGlob(tied ? pattern.replace(/^\//, "") : pattern, tied);
  return { negated, foldersOnly, matches: (parts) => glob(tied ? parts.join("/") : parts.at(-1)!) };
}

/** A space at the end counts only after a backslash. */
function withoutTrailingSpaces(line: string): string {
  let end = line.length;
  while (end > 0 && line[end - 1] === " ") {
    let slashes = 0;
    while (line[end - 2 - slashes] === "\\") slashes++;
    if (slashes % 2 === 1) break;
    end--;
  }
  return line.slice(0, end);
}

/**
 * Returns whether a path is ignored by the last rule that matches, of the nearest file that has one. `files` go from the
 * outermost to the innermost. Folders above the path are asked by the caller: below an ignored one nothing is read.
 */
export function isIgnored(files: Rules[], path: string[], isFolder: boolean): boolean {
  for (const { base, rules } of files.toReversed()) {
    const parts = path.slice(base.length);
    for (const rule of rules.toReversed())
      if ((isFolder || !rule.foldersOnly) && rule.matches(parts)) return !rule.negated;
  }
  return false;
}
