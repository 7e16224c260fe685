import type { V1Pod } from "@kubernetes/client-node";
import { PASSWORD, REPLICATION, RESTORED } from "../server/annotations.ts";
import type { Ordinal, Pair } from "../server/manifests.ts";
import { readiness } from "../server/pod-status.ts";
import { isAlike, isCurrent, type Template } from "./pair.ts";
import type { Replication } from "./replication.ts";

// What is to be done next with an addon that has a standby. One of both servers is appointed as the primary, by the template of
// their pods, before anything else makes it so: whoever is killed in between leaves a state from which the next step follows.

/** One of both servers. */
export type Server = {
  pod?: V1Pod;
  /** What it says; undefined where it does not answer. */
  says?: Replication;
};

export type Servers = readonly [Server, Server];

export type Situation = Pair & {
  servers: Servers;
  template: Template;
  /** Whether the addon is to have a single server, which is the first one. */
  single: boolean;
  now: number;
};

export type Step =
  | { do: "nothing" }
  | { do: "wait" }
  /** Deletes a pod, in whose place comes one that is as the template says. */
  | { do: "restart"; pod: V1Pod }
  /** Stores that this one is the primary from now on. */
  | { do: "appoint"; primary: Ordinal }
  /** Has the former primary hand over to the appointed one. */
  | { do: "hand-over" }
  /** Makes the appointed one the primary. */
  | { do: "promote" }
  /** Makes the other one, which takes itself for the primary, a standby. */
  | { do: "follow" }
  /** Removes the standby, which is the second one. */
  | { do: "remove-standby" };

/** For how long a primary is away before its standby takes over: a container that is started again takes less. */
const AWAY_MS = 30_000;
/** How much longer than the primary has been away the standby may be without it: one is noticed later than the other. */
const UNLINKED_MS = 60_000;
/** How long a standby may take to get all data before changes of the addon go on without it. */
const SYNC_MS = 600_000;

/** Returns what is next; pure. */
export function nextStep(situation: Situation): Step {
  const { primary, servers, template, now } = situation;
  const [own, other] = [servers[primary], servers[otherThan(primary)]];
  // Its volume alone has what is to be restored; and one that has another secret, or none, knows nothing of a standby.
  if (own.pod && !isLeaving(own.pod) && !isAlike(own.pod, template, [RESTORED, REPLICATION]))
    return { do: "restart", pod: own.pod };
  if (serves(own)) return besidePrimary(situation, own, other);
  if (own.says?.role === "slave" && !own.says.isReading) return towardsPrimary(situation, own, other);
  const away = awaySince(own.pod, now);
  const canTakeOver = away !== undefined && now - away > AWAY_MS && hasAllUntil(other, template, away, now);
  return canTakeOver ? { do: "appoint", primary: otherThan(primary) } : { do: "wait" };
}

/** The appointed one serves. */
function besidePrimary(
  { primary, replaced, template, single, now }: Situation,
  own: Server,
  other: Server,
): Step {
  if (single && primary === 0) return { do: "remove-standby" };
  if (other.pod && !isLeaving(other.pod) && uidOf(other) === replaced)
    return { do: "restart", pod: other.pod };
  if (serves(other)) return { do: "follow" };
  if (!other.pod || isLeaving(other.pod)) return { do: "wait" };
  if (!isCurrent(other.pod, template)) return { do: "restart", pod: other.pod };
  const changesPlaces = single || (own.pod && !isCurrent(own.pod, template));
  if (isInSync(other))
    return changesPlaces ? { do: "appoint", primary: otherThan(primary) } : { do: "nothing" };
  const isHopeless = now - new Date(other.pod.metadata?.creationTimestamp ?? now).getTime() > SYNC_MS;
  if (changesPlaces && !single && isHopeless && own.pod) return { do: "restart", pod: own.pod };
  return { do: "wait" };
}

/** The appointed one is a standby so far. */
function towardsPrimary({ replaced }: Situation, own: Server, other: Server): Step {
  const isFormer = uidOf(other) === replaced && other.pod !== undefined;
  if (!isFormer) return { do: "promote" };
  if (serves(other)) return own.says?.linked ? { do: "hand-over" } : { do: "wait" };
  return isLeaving(other.pod) ? { do: "promote" } : { do: "restart", pod: other.pod! };
}

export const otherThan = (ordinal: Ordinal): Ordinal => (ordinal === 0 ? 1 : 0);
const uidOf = ({ pod }: Server) => pod?.metadata?.uid;
export const isLeaving = (pod: V1Pod | undefined) => pod?.metadata?.deletionTimestamp !== undefined;

/** Whether a server is a primary, and answers what it is asked. */
export const serves = ({ says }: Server) => says?.role === "master" && !says.isReading;

const isInSync = ({ pod, says }: Server) => says?.linked === true && !says.isReading && readiness(pod).ready;

/** Returns since when a pod does not serve; undefined where it does, or was not created yet. */
function awaySince(pod: V1Pod | undefined, now: number): number | undefined {
  const { creationTimestamp, deletionTimestamp, deletionGracePeriodSeconds = 0 } = pod?.metadata ?? {};
  if (!creationTimestamp) return undefined;
  const { ready, at } = readiness(pod);
  if (ready) return undefined;
  const isReady = pod?.status?.conditions?.some(({ type, status }) => type === "Ready" && status === "True");
  // Its deletion was asked for that long before it is forced.
  if (deletionTimestamp && isReady)
    return Math.min(new Date(deletionTimestamp).getTime() - deletionGracePeriodSeconds * 1_000, now);
  return at ?? new Date(creationTimestamp).getTime();
}

/** Whether a standby has all that its primary had, up to about the time when that went away. */
function hasAllUntil({ pod, says }: Server, template: Template, away: number, now: number): boolean {
  if (!pod || !says || says.role !== "slave" || says.isReading) return false;
  // With another password nobody would reach it, and one that has not been restored has what is to be replaced.
  if (!isAlike(pod, template, [PASSWORD, RESTORED, REPLICATION])) return false;
  const { linked, unlinkedSeconds } = says;
  return linked || (unlinkedSeconds !== undefined && unlinkedSeconds * 1_000 <= now - away + UNLINKED_MS);
}
