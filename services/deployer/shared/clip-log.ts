/** How much is kept of a build's output and of one line, in bytes of UTF-8 (docs/deployments.md#build-logs). */
export const BUILD_LOG_BYTES = 1024 * 1024;
const BUILD_LOG_LINE_BYTES = 16 * 1024;

const CUT_MARK = " … (line cut)";

/** Returns a line cut to `maxBytes`, between characters and with a mark, when it is longer. */
export function clipLine(line: string, maxBytes: number = BUILD_LOG_LINE_BYTES): string {
  if (line.length * 3 <= maxBytes || Buffer.byteLength(line) <= maxBytes) return line;
  const bytes = Buffer.from(line);
  let end = maxBytes;
  while (end > 0 && (bytes[end]! & 0xc0) === 0x80) end--;
  return bytes.toString("utf8", 0, end) + CUT_MARK;
}

/** Returns the newest lines that fit into `maxBytes`; the first is complete. */
export function keepNewest(text: string, maxBytes: number = BUILD_LOG_BYTES): BuildLogSnapshot {
  const bytes = Buffer.from(text);
  if (bytes.length <= maxBytes) return { logs: text, truncated: false };
  const from = bytes.indexOf(10, bytes.length - maxBytes - 1) + 1;
  return { logs: from === 0 ? "" : bytes.toString("utf8", from), truncated: true };
}

type BuildLogSnapshot = {
  logs: string;
  /** Older output was dropped. */
  truncated: boolean;
};
