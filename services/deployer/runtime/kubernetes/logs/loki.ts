import { text } from "node:stream/consumers";
import { fetch } from "../../../../kit/network/fetch.ts";
import type { Logger } from "../../../shared/logger.ts";
import type { LogFilter } from "../../port.ts";
import { compare, type Line, numberLines, type Position, shortName } from "./log-lines.ts";
import type { LogSource } from "./log-source.ts";

/** The labels under which a collector hands in the lines of pods. */
export type LokiLabels = {
  namespace: string;
  pod: string;
  container: string;
  /** Of the pod's label berth.dev/service. */
  service: string;
  /** Of the pod's label berth.dev/version. */
  version: string;
  /** stdout or stderr; lines without it count as stdout. */
  stream: string;
};

export type LokiOptions = {
  url: string;
  tenant?: string;
  /** Value of the header of that name; secret. */
  authorization?: string;
  /** How far back it is asked. */
  days: number;
  labels: LokiLabels;
};

type Range = { start: bigint; end: bigint; limit: number };
/** One stream of an answer: its labels, and its lines with their times in nanoseconds. */
type Stream = { stream: Record<string, string>; values: [string, string][] };

const TIMEOUT_MS = 5_000;
const MAX_ANSWER = 16 * 1024 * 1024;
/** The most lines and the longest time that Loki admits in one query unless it is set up otherwise. */
const MAX_LINES = 5_000;
const MAX_RANGE = 721n * 3_600_000_000_000n;
const DAY = 24n * 3_600_000_000_000n;
/** Clocks of nodes may be ahead of ours; Loki takes no line that is more than this ahead of its own. */
const AHEAD = 10n * 60_000_000_000n;

export type Loki = ReturnType<typeof createLoki>;

/** Reads the output of services from a Loki, to which a collector hands in what pods write. */
export function createLoki(options: LokiOptions, log: Logger) {
  const { labels, days } = options;
  let failing = false;

  async function readNewest(
    source: LogSource,
    filter: LogFilter,
    wanted: number,
    before?: Position,
  ): Promise<Line[]> {
    const limit = Math.min(wanted, MAX_LINES);
    const signal = AbortSignal.timeout(TIMEOUT_MS);
    const query = selectorOf(labels, source, filter);
    const now = toNanos(new Date().toISOString());
    const since = filter.since ? toNanos(filter.since.toISOString()) : 0n;
    const start = larger(now - BigInt(days) * DAY, since);
    let end = before ? toNanos(before.time) + 1n : now + AHEAD;
    let size = Math.min(limit + 2, MAX_LINES);
    const found: Line[] = [];
    while (start < end && found.length < limit) {
      const from = larger(start, end - MAX_RANGE);
      const streams = await ask(options, query, { start: from, end, limit: size }, signal);
      const lines = toLines(streams, labels, source);
      const oldest = lines[0]?.time;
      const cut = streams.flatMap(({ values }) => values).length >= size ? oldest : undefined;
      // Lines of one time are numbered together: those that an answer may have cut are asked for once more.
      const whole = lines.filter(({ time }) => time !== cut);
      const more = cut !== undefined && whole.length === 0;
      if (more && size < MAX_LINES) {
        size = MAX_LINES;
        continue;
      }
      const usable = more ? lines : whole;
      found.push(...usable.filter((line) => !before || compare(line, before) < 0).reverse());
      end = cut === undefined ? from : toNanos(cut) + (more ? 0n : 1n);
    }
    return found.slice(0, limit);
  }

  return {
    /**
     * Returns up to `limit` (at most 5 000) matching lines of a service that precede `before`, newest first. Undefined
     * when Loki does not answer as it should; what is wrong is logged once, until it answers again.
     */
    async newest(
      source: LogSource,
      filter: LogFilter,
      limit: number,
      before?: Position,
    ): Promise<Line[] | undefined> {
      try {
        const found = await readNewest(source, filter, limit, before);
        if (failing) log.info({}, "Loki answers again");
        failing = false;
        return found;
      } catch (error) {
        if (!failing) log.warn({ why: reasonOf(error) }, "Loki does not answer as it should");
        failing = true;
        return undefined;
      }
    },
  };
}

/** Returns the LogQL selector of the lines of one service. */
function selectorOf(
  labels: LokiLabels,
  { serviceId, namespace, container, versioned, format }: LogSource,
  { version, stream }: LogFilter,
): string {
  const matchers = [
    [labels.namespace, "=", namespace],
    [labels.container, "=", container],
    [labels.service, "=", serviceId],
    [labels.pod, "!=", ""],
    ...(versioned && version === undefined ? [[labels.version, "=~", "[0-9]+"]] : []),
    ...(version === undefined ? [] : [[labels.version, "=", String(version)]]),
    ...(stream ? [[labels.stream, stream === "stderr" ? "=" : "!=", "stderr"]] : []),
  ];
  const selector = matchers.map(([label, is, value]) => `${label}${is}${JSON.stringify(value)}`).join(", ");
  return `{${selector}}${format ? ` |= ${JSON.stringify(format.part)}` : ""}`;
}

async function ask(
  { url, tenant, authorization }: LokiOptions,
  query: string,
  { start, end, limit }: Range,
  signal: AbortSignal,
): Promise<Stream[]> {
  const search = new URLSearchParams({
    query,
    start: String(start),
    end: String(end),
    limit: String(limit),
    direction: "backward",
  });
  const response = await fetch(`${url}/loki/api/v1/query_range?${search}`, {
    headers: { ...(tenant && { "x-scope-orgid": tenant }), ...(authorization && { authorization }) },
    // The credentials are for nobody else.
    redirect: "error",
    signal,
  });
  const body = await text(limited(response.body ?? []));
  if (!response.ok) throw new Error(`status ${response.status}: ${body.slice(0, 200)}`);
  const { data } = JSON.parse(body) as { data?: { resultType?: string; result?: Stream[] } };
  if (data?.resultType !== "streams" || !data.result) throw new Error("an answer without streams");
  return data.result;
}

async function* limited(parts: AsyncIterable<Uint8Array> | []): AsyncGenerator<Uint8Array> {
  let size = 0;
  for await (const part of parts) {
    size += part.length;
    if (size > MAX_ANSWER) throw new Error("an answer over 16 MiB");
    yield part;
  }
}

/** Returns the lines of an answer, oldest first. */
function toLines(streams: Stream[], labels: LokiLabels, { versioned, format }: LogSource): Line[] {
  const lines = streams.flatMap(({ stream: given, values }) => {
    const common = {
      pod: shortName(given[labels.pod] ?? ""),
      nth: 0,
      stream: given[labels.stream] === "stderr" ? ("stderr" as const) : ("stdout" as const),
      version: versioned ? Number(given[labels.version]) : 0,
    };
    return values.toReversed().flatMap(([nanos, written]) => {
      const time = toTime(BigInt(nanos));
      return (format ? format.show(written) : [written]).map((message) => ({ ...common, time, message }));
    });
  });
  lines.sort((one, other) => compare(one, other) || other.stream.localeCompare(one.stream));
  const numbers = new Map([...new Set(lines.map(({ pod }) => pod))].map((pod) => [pod, numberLines(pod)]));
  return lines.map((line) => ({ ...line, ...numbers.get(line.pod)?.(line.time) }));
}

/** Returns the nanoseconds since 1970 of a time with up to 9 digits after the second. */
function toNanos(time: string): bigint {
  const fraction = time.slice(20).replace("Z", "").padEnd(9, "0");
  return BigInt(Date.parse(`${time.slice(0, 19)}Z`)) * 1_000_000n + BigInt(fraction);
}

function toTime(nanos: bigint): string {
  const second = new Date(Number(nanos / 1_000_000_000n) * 1_000).toISOString().slice(0, 19);
  return `${second}.${String(nanos % 1_000_000_000n).padStart(9, "0")}`;
}

const larger = (one: bigint, other: bigint) => (one > other ? one : other);

function reasonOf(error: unknown): string {
  const { name, message, cause } = error as Error;
  if (name === "TimeoutError") return `no answer within ${TIMEOUT_MS / 1_000} s`;
  return (cause as { code?: string } | undefined)?.code ?? message;
}
