const LINE =
  /^[ \t]*(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)[ \t]*=[ \t]*("(?:[^"\\]|\\[\s\S])*"|'[^']*'|`[^`]*`|[^\r\n]*)/gm;

const ESCAPES: Record<string, string> = { n: "\n", r: "\r", t: "\t" };

/** Returns the variables of a text like a `.env` file, of each name the last. */
export function readEnv(text: string): { name: string; value: string }[] {
  const found = new Map<string, string>();
  for (const [, name, written] of text.replace(/^\uFEFF/, "").matchAll(LINE))
    found.set(name as string, unquoted(written as string));
  return [...found].map(([name, value]) => ({ name, value }));
}

function unquoted(written: string): string {
  const quote = written[0];
  const isQuoted = written.length > 1 && written.endsWith(quote ?? "");
  if (isQuoted && quote === '"')
    return written.slice(1, -1).replace(/\\([\s\S])/g, (_, one: string) => ESCAPES[one] ?? one);
  if (isQuoted && (quote === "'" || quote === "`")) return written.slice(1, -1);
  return written.replace(/(?:^|[ \t])#.*$/, "").trim();
}
