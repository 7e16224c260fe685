import { unavailable } from "../rpc/refusals.ts";
import type { FollowedSet } from "./followed-set.ts";

/** How a frame relates to what the client has: it replaces it, changes it, or leaves it as it is. */
export type Mode = "full" | "changes" | "none";

/** One event of a followed set (docs/streams.md#frame). */
export type Frame<T> = { begin: Mode } | { set: T } | { unset: string } | { commit: string };

/** Where a follower begins: the members that changed since it was here, up to commit `seq`; undefined for all. */
export type Start = { seq: number; changed: ReadonlySet<string> | undefined };

const HEARTBEAT_MS = 15_000;

/**
 * Yields the frames of a set: first what brings the follower up to date, then one for each commit, or for several at once
 * when it reads slowly. A commit alone says every 15 s that nothing else changed. Throws what the set ended with, and 503
 * when `signal` aborts.
 */
export async function* followSet<T>(
  set: FollowedSet<T>,
  { seq, changed }: Start,
  signal: AbortSignal,
  heartbeatMs = HEARTBEAT_MS,
): AsyncGenerator<Frame<T>, never> {
  const since = set.changedSince(seq);
  let keys = changed && since && new Set([...changed, ...since]);
  for (;;) {
    seq = set.seq;
    yield* frameOf(set, keys);
    do {
      await set.next(seq, signal, heartbeatMs);
      if (signal.aborted) throw unavailable();
      keys = set.changedSince(seq);
      if (set.seq === seq) yield { commit: set.revision };
    } while (set.seq === seq);
  }
}

/** Returns the frame of these members, rendered now; of all for undefined. */
function frameOf<T>(set: FollowedSet<T>, keys: ReadonlySet<string> | undefined): Frame<T>[] {
  const frame: Frame<T>[] = [{ begin: keys === undefined ? "full" : keys.size === 0 ? "none" : "changes" }];
  for (const key of keys ?? set.keys()) {
    const member = set.render(key);
    if (member !== undefined) frame.push({ set: member });
    else if (keys) frame.push({ unset: key });
  }
  frame.push({ commit: set.revision });
  return frame;
}
