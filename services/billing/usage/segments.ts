// Times are whole seconds since 1970.

export type Amount = { size: string; replicas: number };

/** What the deployer says of one interval; `seq` is the order in it, `at` is in milliseconds. */
export type UsageEvent = Amount & { seq: number; kind: UsageKind; at: number };
export type UsageKind = "start" | "resize" | "stop" | "heartbeat";

/** A time in which a service ran unchanged. Without `end` it runs on, as far as is known. */
export type Segment = Amount & { seq: number; start: number; end?: number };

/** What limits an interval from outside; times in seconds. */
export type Bounds = {
  /** When the deployer last said that it runs. */
  lastSeen: number;
  /** When the service's next interval begins. */
  next?: number;
};

/**
 * Returns the segments of an interval from its events, in whatever order and however late they came:
 * - A time counts from the whole second it is in. One that lies before that of an earlier event counts as that.
 * - Without a start, the interval begins with the first event that says it runs; a stop alone says nothing.
 * - An event that changes nothing begins no segment.
 * - What follows a stop changes nothing.
 * - Without a stop, the next interval of the service ends it, at the latest when it was last seen.
 */
export function segmentsOf(events: UsageEvent[], { lastSeen, next }: Bounds): Segment[] {
  const ordered = events.toSorted((a, b) => a.seq - b.seq);
  const segments: Segment[] = [];
  let at = 0;
  for (const event of ordered) {
    at = Math.max(at, Math.floor(event.at / 1_000));
    const last = segments.at(-1);
    if (last && event.kind !== "stop" && isSame(last, event)) continue;
    if (last) last.end = at;
    if (event.kind === "stop") return clip(segments, next);
    segments.push({ seq: event.seq, size: event.size, replicas: event.replicas, start: at });
  }
  const last = segments.at(-1);
  if (last && next !== undefined) last.end = Math.max(last.start, lastSeen);
  return clip(segments, next);
}

/** Ends segments where the service's next interval begins, and leaves out empty ones. */
function clip(segments: Segment[], next = Number.POSITIVE_INFINITY): Segment[] {
  return segments
    .map((one) => (one.end === undefined ? one : { ...one, end: Math.min(one.end, next) }))
    .filter(({ start, end }) => end === undefined || end > start);
}

function isSame(a: Amount, b: Amount): boolean {
  return a.size === b.size && a.replicas === b.replicas;
}

/** Whether a heartbeat says something that the earlier events of its interval do not. */
export function addsInformation(heartbeat: UsageEvent, known: UsageEvent[]): boolean {
  const before = known.filter(({ seq }) => seq < heartbeat.seq).toSorted((a, b) => b.seq - a.seq)[0];
  return before === undefined || (before.kind !== "stop" && !isSame(before, heartbeat));
}
