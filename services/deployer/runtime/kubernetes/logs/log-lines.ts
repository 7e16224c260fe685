import type { LogFilter, LogLine, LogStream } from "../../port.ts";
import { invalidCursor } from "../../refusals.ts";

/** The position of a line in a service's log: by its time, then its pod, then its number among equal times. */
export type Position = { time: string; pod: string; nth: number };

export type Line = Position & { message: string; stream: LogStream; version: number };

/** A time as the cluster writes it, with 0 to 9 digits after the second. */
const TIME = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?Z$/;
const CURSOR = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}) ([a-z0-9-]{1,16}) (\d{1,6})$/;

/** Splits a line of a pod's log into its time, which sorts as text, and its message; undefined without a time. */
export function parseLine(raw: string): { time: string; message: string } | undefined {
  const end = raw.indexOf(" ");
  const [, second, fraction = ""] = TIME.exec(end < 0 ? raw : raw.slice(0, end)) ?? [];
  if (!second) return undefined;
  return { time: `${second}.${fraction.padEnd(9, "0")}`, message: end < 0 ? "" : raw.slice(end + 1) };
}

/** Returns the end of a pod's name, which distinguishes a service's replicas. */
export function shortName(pod: string): string {
  return pod.slice(pod.lastIndexOf("-") + 1);
}

export function compare(one: Position, other: Position): number {
  if (one.time !== other.time) return one.time < other.time ? -1 : 1;
  if (one.pod !== other.pod) return one.pod < other.pod ? -1 : 1;
  return one.nth - other.nth;
}

export function toLogLine(line: Line, cursor: Position = line): LogLine {
  const { message, stream, version } = line;
  // The API shows milliseconds; the cursor keeps the rest.
  const timestamp = `${line.time.slice(0, 23)}Z`;
  return { timestamp, message, stream, replica: line.pod, version, cursor: writeCursor(cursor) };
}

export function writeCursor({ time, pod, nth }: Position): string {
  return `${time} ${pod} ${nth}`;
}

export function readCursor(cursor: string | undefined): Position | undefined {
  if (cursor === undefined) return undefined;
  const [, time, pod, nth] = CURSOR.exec(cursor) ?? [];
  if (!time || !pod || !nth) throw invalidCursor();
  return { time, pod, nth: Number(nth) };
}

export function matches(line: Line, { version, stream, since }: LogFilter): boolean {
  return (
    (stream === undefined || line.stream === stream) &&
    (version === undefined || line.version === version) &&
    (since === undefined || Date.parse(`${line.time.slice(0, 23)}Z`) >= since.getTime())
  );
}

/** Returns a function from the time of a pod's next line to its position. */
export function numberLines(pod: string) {
  let last = "";
  let nth = 0;
  return (time: string): Position => {
    nth = time === last ? nth + 1 : 0;
    last = time;
    return { time, pod, nth };
  };
}
