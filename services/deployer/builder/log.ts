/** decisions.md §4: what is kept of a build's output, and of one line. Bytes of UTF-8. */
export const buildLogBytes = 1024 * 1024;
export const buildLogLineBytes = 16 * 1024;

const mask = "***";
const cutMark = " … (line cut)";

/** Replaces each of the values wherever it occurs; the lines of a value with several count as values too. */
export function maskSecrets(values: readonly string[]): (text: string) => string {
  const parts = values
    .flatMap((value) => [value, ...value.split(/\r?\n/)])
    .filter((part) => part.trim() !== "");
  if (parts.length === 0) return (text) => text;
  // Longest first: a value that contains another must not leave its other half.
  const ordered = [...new Set(parts)].sort((one, other) => other.length - one.length);
  const pattern = new RegExp(
    ordered.map((part) => part.replace(/[\\^$.*+?()[\]{}|/-]/g, "\\$&")).join("|"),
    "g",
  );
  return (text) => text.replace(pattern, mask);
}

/** Cuts a line that is longer than `maxBytes`, between characters. */
export function clipLine(line: string, maxBytes: number = buildLogLineBytes): string {
  if (line.length * 3 <= maxBytes || Buffer.byteLength(line) <= maxBytes) return line;
  const bytes = Buffer.from(line);
  let end = maxBytes;
  while (end > 0 && (bytes[end]! & 0xc0) === 0x80) end--;
  return bytes.toString("utf8", 0, end) + cutMark;
}

/** The newest lines that fit into `maxBytes`, beginning at the start of a line. */
export function keepNewest(text: string, maxBytes: number = buildLogBytes): BuildLogSnapshot {
  const bytes = Buffer.from(text);
  if (bytes.length <= maxBytes) return { logs: text, truncated: false };
  const from = bytes.indexOf(10, bytes.length - maxBytes - 1) + 1;
  return { logs: from === 0 ? "" : bytes.toString("utf8", from), truncated: true };
}

export interface BuildLogSnapshot {
  logs: string;
  /** Older output was dropped. */
  truncated: boolean;
}
