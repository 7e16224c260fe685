/** Matches of characters in brackets, as POSIX names them. */
const CLASSES: Record<string, (char: string) => boolean> = {
  alnum: (c) => /[a-z0-9]/i.test(c),
  alpha: (c) => /[a-z]/i.test(c),
  blank: (c) => c === " " || c === "\t",
  cntrl: (c) => c < " " || c === "\x7f",
  digit: (c) => /\d/.test(c),
  graph: (c) => c > " " && c < "\x7f",
  lower: (c) => /[a-z]/.test(c),
  print: (c) => c >= " " && c < "\x7f",
  punct: (c) => c > " " && c < "\x7f" && !/[a-z0-9]/i.test(c),
  space: (c) => /\s/.test(c),
  upper: (c) => /[A-Z]/.test(c),
  xdigit: (c) => /[0-9a-f]/i.test(c),
};

type Token =
  /** One byte. */
  | { kind: "one"; matches: (byte: string) => boolean }
  /** Any bytes except a slash. */
  | { kind: "star" }
  /** Any bytes. */
  | { kind: "any" }
  /** Before `any` and a slash, which together may also be nothing. */
  | { kind: "folders" };

const UTF8 = new TextEncoder();
const NOT_ASCII = /[^ -~]/;

/** One character for each byte: for git, `?` and brackets match one byte, so neither matches an `é`. */
const bytesOf = (text: string) =>
  NOT_ASCII.test(text) ? Array.from(UTF8.encode(text), (byte) => String.fromCharCode(byte)).join("") : text;

const SPECIAL = /[*?[\\]/;

/**
 * Returns whether texts match a pattern, as git's wildmatch sees them. A path has `/` between its parts. It takes at most
 * as many steps as pattern and text multiplied, whoever wrote the pattern.
 */
export function compileGlob(pattern: string, isPath: boolean): (text: string) => boolean {
  const bytes = bytesOf(pattern);
  // git compares what is before the first special character by itself: `a**/b` has the `**` of a path for this reason.
  const special = bytes.search(SPECIAL);
  const plain = !isPath ? "" : special < 0 ? bytes : bytes.slice(0, special);
  const tokens = tokensOf(bytes.slice(plain.length), isPath);
  return (text) => {
    const all = bytesOf(text);
    return tokens !== undefined && all.startsWith(plain) && matches(tokens, all.slice(plain.length));
  };
}

/** Follows all ways through the tokens at once. */
function matches(tokens: Token[], text: string): boolean {
  let states = new Set<number>();
  const enter = (at: number, into: Set<number>) => {
    if (into.has(at)) return;
    into.add(at);
    const kind = tokens[at]?.kind;
    if (kind === "star" || kind === "any" || kind === "folders") enter(at + 1, into);
    if (kind === "folders") enter(at + 3, into);
  };
  enter(0, states);
  for (const byte of text) {
    const next = new Set<number>();
    for (const at of states) {
      const token = tokens[at];
      if (token?.kind === "any" || (token?.kind === "star" && byte !== "/")) enter(at, next);
      else if (token?.kind === "one" && token.matches(byte)) enter(at + 1, next);
    }
    if (next.size === 0) return false;
    states = next;
  }
  return states.has(tokens.length);
}

/** Returns the tokens of a pattern; undefined for one that matches nothing. */
function tokensOf(pattern: string, isPath: boolean): Token[] | undefined {
  const chars = [...pattern];
  const tokens: Token[] = [];
  const isOne = (wanted: string): Token => ({ kind: "one", matches: (byte) => byte === wanted });
  for (let at = 0; at < chars.length; at++) {
    const char = chars[at]!;
    if (char === "*") {
      let end = at;
      while (chars[end] === "*") end++;
      const isWhole = end - at > 1 && (at === 0 || chars[at - 1] === "/");
      const slash = chars[end] === "/";
      if (isPath && isWhole && slash) {
        tokens.push({ kind: "folders" }, { kind: "any" }, isOne("/"));
        end++;
      } else {
        const crosses =
          isPath && isWhole && (end === chars.length || (chars[end] === "\\" && chars[end + 1] === "/"));
        tokens.push({ kind: crosses ? "any" : "star" });
      }
      at = end - 1;
    } else if (char === "?") tokens.push({ kind: "one", matches: (byte) => byte !== "/" });
    else if (char === "[") {
      const set = bracketAt(chars, at);
      if (!set) return undefined;
      tokens.push({ kind: "one", matches: (byte) => byte !== "/" && set.matches(byte) });
      at = set.end;
    } else if (char === "\\") {
      const next = chars[++at];
      if (next === undefined) return undefined;
      tokens.push(isOne(next));
    } else tokens.push(isOne(char));
  }
  return tokens;
}

/** Reads brackets that begin at `start`; undefined when they are not closed, or name an unknown class. */
function bracketAt(chars: string[], start: number) {
  let at = start + 1;
  const negated = chars[at] === "!" || chars[at] === "^";
  if (negated) at++;
  const tests: ((char: string) => boolean)[] = [];
  const single = (): string | undefined => (chars[at] === "\\" ? chars[++at] : chars[at]);
  for (let first = true; ; first = false, at++) {
    const char = chars[at];
    if (char === undefined) return undefined;
    if (char === "]" && !first) break;
    if (char === "[" && chars[at + 1] === ":") {
      const end = chars.indexOf("]", at + 2);
      if (end > 0 && chars[end - 1] === ":" && end - 1 > at + 1) {
        const test = CLASSES[chars.slice(at + 2, end - 1).join("")];
        if (!test) return undefined;
        tests.push(test);
        at = end;
        continue;
      }
      if (end < 0) return undefined;
    }
    const low = single();
    if (low === undefined) return undefined;
    if (chars[at + 1] === "-" && chars[at + 2] !== "]" && chars[at + 2] !== undefined) {
      at += 2;
      const high = single();
      if (high === undefined) return undefined;
      // For git, the first end of a range is also a character by itself: `[b-a]` matches `b`.
      tests.push((c) => c === low || (low < c && c <= high));
    } else tests.push((c) => c === low);
  }
  return { end: at, matches: (char: string) => tests.some((test) => test(char)) !== negated };
}
