import { unavailable } from "../../../../kit/rpc/refusals.ts";
import type { LogFilter, LogPage, LogQuery } from "../../port.ts";
import type { KubernetesRuntimeOptions } from "../options.ts";
import { followLines } from "./log-follow.ts";
import {
  compare,
  type Line,
  matches,
  type Position,
  readCursor,
  toLogLine,
  writeCursor,
} from "./log-lines.ts";
import { createLogReader, type LoggedPod } from "./log-read.ts";
import type { LogSource } from "./log-source.ts";
import { createLoki } from "./loki.ts";
import { createPodFinder, type LoggedService } from "./pod-finder.ts";

/** How many lines are read at first; enough for most pages. */
const MIN_LINES = 200;
const LOKI_AWAY =
  "Older lines are in Loki, which cannot be read right now. Try again, or ask for fewer lines with limit.";
/** The position before all lines. */
const START: Position = { time: "", pod: "", nth: 0 };

/**
 * The logs that nodes keep: of existing pods, each with its current container and the previous one; together with those
 * in a Loki, if there is one. A line that both have counts as Loki's, which knows its stream. Any process can read them:
 * it asks the cluster for the pods itself. `sourceOf` returns where lines are written.
 */
export function createLogs<Query extends LogQuery>(
  options: Pick<KubernetesRuntimeOptions, "kube" | "log" | "loki">,
  sourceOf: (query: Query) => LogSource,
) {
  const reader = createLogReader(options.kube);
  const finder = createPodFinder(options);
  const loki = options.loki && createLoki(options.loki, options.log);

  /** Returns up to `limit` matching lines of a pod that precede `before`, newest first. */
  async function newestOf(
    pod: LoggedPod,
    filter: LogFilter,
    limit: number,
    before?: Position,
  ): Promise<Line[]> {
    const wanted = (line: Line) => matches(line, filter) && (!before || compare(line, before) < 0);
    const found: Line[] = [];
    for (const previous of pod.restarts > 0 ? [false, true] : [false]) {
      for (let tailLines = Math.max(MIN_LINES, 2 * limit); ; tailLines *= 8) {
        const read = await reader.newest(pod, { previous, tailLines, since: filter.since });
        const matching = read.found.filter(wanted).reverse();
        if (matching.length < limit - found.length && !read.all) continue;
        found.push(...matching.slice(0, limit - found.length));
        break;
      }
      if (found.length >= limit) break;
    }
    return found;
  }

  /** Returns the newest lines, newest first, and whether Loki did not answer: then older ones may be missing. */
  async function newest(
    service: LoggedService | undefined,
    filter: LogFilter,
    limit: number,
    before?: Position,
  ) {
    if (!service) return { lines: [], incomplete: false };
    const pods = service.pods.filter((pod) => isWanted(pod, filter));
    const [archived, ...kept] = await Promise.all([
      loki ? loki.newest(service.source, filter, limit, before) : [],
      ...pods.map((pod) => newestOf(pod, filter, limit, before)),
    ]);
    const both = [...(archived ?? []), ...((await alone(archived, filter, pods)) ? [] : kept.flat())];
    const byPosition = new Map(both.reverse().map((line) => [writeCursor(line), line]));
    const lines = [...byPosition.values()].sort((one, other) => compare(other, one)).slice(0, limit);
    return { lines, incomplete: archived === undefined };
  }

  /** Whether Loki's lines are all that is shown: where nodes do not distinguish the requested streams. */
  async function alone(archived: Line[] | undefined, { stream }: LogFilter, [pod]: LoggedPod[]) {
    if (!loki || !archived || !stream || !pod) return false;
    return !(await reader.splitsStreams(pod));
  }

  return {
    async page(query: Query & { limit: number; cursor?: string }): Promise<LogPage> {
      const { limit, cursor, ...filter } = query;
      const before = readCursor(cursor);
      const service = await finder.find(sourceOf(query));
      const { lines: found, incomplete } = await newest(service, filter, limit + 1, before);
      if (incomplete && found.length === 0) throw unavailable(LOKI_AWAY);
      const lines = found.slice(0, limit);
      const last = lines.at(-1);
      return {
        lines: lines.map((line) => toLogLine(line)),
        ...((found.length > limit || incomplete) && last && { nextCursor: writeCursor(last) }),
      };
    },

    async *follow(query: Query & { tail?: number; after?: string }, signal: AbortSignal) {
      const { tail = 0, after, ...filter } = query;
      let from = readCursor(after);
      const live = await finder.follow(sourceOf(query), signal);
      if (!live) return;
      try {
        if (!from) {
          // After the newest line that exists now; our clock need not agree with the cluster's.
          const { lines: before } = await newest(live.now(), filter, Math.max(1, tail));
          from = before[0] ?? START;
          for (const line of tail > 0 ? before.reverse() : []) {
            if (signal.aborted) return;
            yield toLogLine(line);
          }
        }
        const wanted = () => live.now()?.pods.filter((pod) => isWanted(pod, filter));
        for await (const { line, cursor } of followLines(reader, wanted, from, signal))
          if (matches(line, filter)) yield toLogLine(line, cursor);
      } finally {
        await live.stop();
      }
    },
  };
}

function isWanted(pod: LoggedPod, { version }: LogFilter): boolean {
  return version === undefined || pod.version === version;
}
