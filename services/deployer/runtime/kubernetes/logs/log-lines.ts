import { type LogLine, type LogQuery, type LogStream, RuntimeRefusal } from "../../port.ts";

/**
 * Where a line stands among all lines of a service: by its time, then by its pod, then by its place among the
 * pod's lines of that very time.
 */
export type Position = { time: string; pod: string; nth: number };

export type Line = Position & { message: string; stream: LogStream; version: number };

/** Times as the cluster writes them, of one length, so that they sort as text. */
const TIME = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?Z$/;
const CURSOR = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}) ([a-z0-9-]{1,16}) (\d{1,6})$/;

/** One line of a pod's log, parted; undefined for one without a time. */
export function parseLine(raw: string): { time: string; message: string } | undefined {
  const end = raw.indexOf(" ");
  const [, second, fraction = ""] = TIME.exec(end < 0 ? raw : raw.slice(0, end)) ?? [];
  if (!second) return undefined;
  return { time: `${second}.${fraction.padEnd(9, "0")}`, message: end < 0 ? "" : raw.slice(end + 1) };
}

/** The end of a pod's name: by it a service's replicas are told apart. */
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
  if (!time || !pod || !nth)
    throw new RuntimeRefusal("invalid_cursor", "The cursor does not belong to this log.");
  return { time, pod, nth: Number(nth) };
}

export function matches(line: Line, { version, stream, since }: Omit<LogQuery, "serviceId">): boolean {
  return (
    (stream === undefined || line.stream === stream) &&
    (version === undefined || line.version === version) &&
    (since === undefined || Date.parse(`${line.time.slice(0, 23)}Z`) >= since.getTime())
  );
}

/** Counts lines of one time, for their positions. */
export function numbering(pod: string) {
  let last = "";
  let nth = 0;
  return (time: string): Position => {
    nth = time === last ? nth + 1 : 0;
    last = time;
    return { time, pod, nth };
  };
}
