/** How many of the last lines of an app's output are read after a crash; the error is looked for in them. */
export const READ_LINES = 200;

const QUOTED_LINES = 10;
const FRAMES = 3;
/** Lines between an error and its frames that belong to its message. */
const MESSAGE_LINES = 4;

const MAX_CHARS = 500;

const FOREIGN =
  /node:internal|node_modules|site-packages|dist-packages|<frozen |\/lib\/python\d|\/usr\/lib\/|\((?:native|node:)|\/usr\/local\/go\//;

/**
 * Returns the lines of output, oldest first, that say why an app ended: its error and the frames in the app's own
 * source, as Node.js, Bun, Python, Go, Java and Ruby write them; of other output the last lines. Pure.
 */
export function excerptCrash(lines: string[]): string[] {
  const shown = lines.map((line) => insideSource(line.slice(0, MAX_CHARS)));
  const found = pythonError(shown) ?? goPanic(shown) ?? errorWithFrames(shown) ?? rubyError(shown);
  return (found ?? shown.slice(-QUOTED_LINES)).slice(0, QUOTED_LINES);
}

/** Returns a line with the paths that users know: those inside their source, which is in a folder `app` where it runs. */
function insideSource(line: string): string {
  const parts = line.replaceAll("file://", "").split(/(\s|["'():])/);
  return parts.map(withoutFolder).join("");
}

function withoutFolder(path: string): string {
  for (let at = path.indexOf("/app/"); at >= 0; at = path.indexOf("/app/", at + 1)) {
    const before = path.slice(Math.max(0, at - 120), at);
    if (before === "/srv" || /\/artifacts\/[\w-]+$/.test(before)) return path.slice(at + "/app/".length);
  }
  return path;
}

function pythonError(lines: string[]): string[] | undefined {
  const begin = lines.findLastIndex((line) => line.trimEnd() === "Traceback (most recent call last):");
  if (begin < 0) return undefined;
  const isError = (line: string) => /^[A-Za-z_][\w.]*(: .*)?$/.test(line);
  const end = lines.findIndex((line, index) => index > begin && isError(line));
  if (end < 0) return undefined;
  // A frame is the line of its place and what Python shows of the source there.
  const frames: string[][] = [];
  for (const line of lines.slice(begin + 1, end)) {
    if (/^ {2}File "/.test(line)) frames.push([line]);
    else if (line.trim() !== "" && !/^\s*[~^]+\s*$/.test(line)) frames.at(-1)?.push(line);
  }
  const own = frames.filter(([place = ""]) => !FOREIGN.test(place));
  return [...lines.slice(end, end + 1), ...own.slice(-FRAMES).toReversed().flat()];
}

function goPanic(lines: string[]): string[] | undefined {
  const begin = lines.findLastIndex((line) => /^(panic: |fatal error: )/.test(line));
  if (begin < 0) return undefined;
  const places = lines.slice(begin).filter((line) => /^\t\S+\.go:\d+/.test(line) && !FOREIGN.test(line));
  return [lines[begin]!, ...places.slice(0, FRAMES)];
}

/** Whether a line begins with the name of an error, as Node.js, Bun and Java write it. */
function isNamedError(line: string): boolean {
  const [text = ""] = line
    .replace(/^(Exception in thread "[^"]*" |Caused by: |Uncaught )/, "")
    .split(/[^\w$.]/);
  return /^[A-Z]/.test(text.split(".").at(-1)!) && /(Error|Exception)$/.test(text);
}

const FRAME = /^\s+at /;

function errorWithFrames(lines: string[]): string[] | undefined {
  const begin = lines.findLastIndex(
    (line, index) =>
      isNamedError(line) &&
      lines.slice(index + 1, index + 1 + MESSAGE_LINES).some((next) => FRAME.test(next)),
  );
  if (begin < 0) return undefined;
  const after = lines.slice(begin + 1);
  const first = after.findIndex((line) => FRAME.test(line));
  const last = after.findIndex((line, index) => index > first && !FRAME.test(line));
  const frames = after.slice(first, last < 0 ? undefined : last).filter((line) => !FOREIGN.test(line));
  const message = [lines[begin]!, ...after.slice(0, first).filter((line) => line.trim() !== "")];
  return [...message, ...(frames.length > 0 ? frames.slice(0, FRAMES) : placeBefore(lines.slice(0, begin)))];
}

/** What Node.js writes above an error without frames of the app, as of syntax: the place, and the line there. */
function placeBefore(lines: string[]): string[] {
  const place = lines.findLastIndex((line) => /^\S+:\d+$/.test(line));
  const isNear = place >= 0 && lines.length - place <= MESSAGE_LINES + 1 && !FOREIGN.test(lines[place]!);
  return isNear ? [`    at ${lines[place]}`, `    ${lines[place + 1]?.trim() ?? ""}`] : [];
}

function rubyError(lines: string[]): string[] | undefined {
  const begin = lines.findLastIndex((line) => {
    const at = line.indexOf(":in ");
    return at > 0 && /:\d+$/.test(line.slice(0, at)) && /\([A-Z][\w:]*\)$/.test(line);
  });
  if (begin < 0) return undefined;
  const frames = lines
    .slice(begin + 1)
    .filter((line) => /^\s+from /.test(line) && !/\/gems\/|\/lib\/ruby\//.test(line));
  return [lines[begin]!, ...frames.slice(0, FRAMES)];
}
