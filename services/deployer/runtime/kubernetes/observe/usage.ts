import type { ServiceSize } from "../../../terms/services.ts";
import type { UsageChange } from "../../../terms/usage-change.ts";
import { appendUsage } from "../../../usage/journal.ts";
import type { PodFacts } from "./status/pod-facts.ts";
import { availableAt, isAvailable, type Observation, replicasOf, servingOf } from "./status/status.ts";

/**
 * Returns the journal of usage, with what is seen now; pure. The cluster records when each replica became ready and when
 * its container ended, so changes that nobody watched are dated to the second as well.
 */
export function usageNow(seen: Observation, now: number): UsageChange[] {
  const { recorded } = seen;
  const wanted = recorded.release.replicas;
  const last = recorded.usage.at(-1);
  const since = last?.at ?? 0;
  const { applied, older } = replicasOf(seen);
  const up = [...applied, ...older].filter((pod) => isAvailable(pod, recorded, now));
  const upAt = (pod: PodFacts) => Math.min(availableAt(pod, recorded) ?? now, now);
  const came = up.map(upAt).filter((at) => at > since);
  // Those that counted at the last change and have not been up ever since.
  const lost = Math.max(0, (last?.replicas ?? 0) - (up.length - came.length));
  const left = endsSince(seen.pods, since, now).slice(0, lost);
  while (left.length < lost) left.push(now);
  const events = [...came.map((at) => ({ at, by: 1 })), ...left.map((at) => ({ at, by: -1 }))];
  // Arrivals first: a replacement at the moment of a departure leaves no gap.
  events.sort((one, other) => one.at - other.at || other.by - one.by);

  const size = servingOf(seen, now)?.size ?? recorded.release.size;
  let journal = recorded.usage;
  let count = last?.replicas ?? 0;
  for (const { at, by } of events) {
    count += by;
    const replicas = Math.min(wanted, count);
    // Still the size of before, unless nothing ran.
    journal = appendUsage(journal, { at, replicas, size: sizeBefore(journal) ?? size });
  }
  const replicas = Math.min(wanted, up.length);
  if (journal.length === 0 && replicas === 0) return journal;
  const resized = Math.max(0, ...up.filter((pod) => pod.size === size).map(upAt));
  return appendUsage(journal, { at: replicas > 0 ? resized : now, replicas, size });
}

/** Returns when replicas that existed at `since` left, as far as the cluster remembers; oldest first. */
function endsSince(pods: PodFacts[], since: number, now: number): number[] {
  const ends = pods.flatMap((pod) => {
    const { endingAt, lastEnd, unreadyAt } = pod;
    if (pod.createdAt > since) return [];
    const restarted = lastEnd && lastEnd.startedAt <= since ? lastEnd.finishedAt : undefined;
    const times = [endingAt, restarted, unreadyAt].filter(
      (at) => at !== undefined && at > since && at <= now,
    );
    return times.length > 0 ? [Math.min(...(times as number[]))] : [];
  });
  return ends.sort((one, other) => one - other);
}

function sizeBefore(journal: UsageChange[]): ServiceSize | undefined {
  const last = journal.at(-1);
  return last && last.replicas > 0 ? last.size : undefined;
}

/** Returns the journal when the desired number changes: fewer replicas count from that moment on. Pure. */
export function usageWanted(usage: UsageChange[], replicas: number, now: number): UsageChange[] {
  const last = usage.at(-1);
  return last && last.replicas > replicas ? appendUsage(usage, { ...last, at: now, replicas }) : usage;
}
