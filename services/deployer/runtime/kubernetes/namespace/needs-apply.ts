import type { V1Namespace, V1ObjectMeta } from "@kubernetes/client-node";
import { type Environment, isSameMark } from "./namespace-manifests.ts";

type Marked = { metadata?: V1ObjectMeta };

/** What a process knows of an environment's namespace. */
export type KnownNamespace = {
  /** As the cluster has it. */
  live?: V1Namespace;
  /** As this process has applied it, or is about to. */
  applied?: Marked;
  /** It lacks something, whatever its mark says. */
  stale: boolean;
};

/**
 * Returns whether a namespace has to be applied before it is used; pure. Its mark says what was applied, by whatever
 * process.
 */
export function needsApply(desired: Marked, { live, applied, stale }: KnownNamespace): boolean {
  if (applied) return !isSameMark(applied, desired);
  return stale || live === undefined || isTerminating(live) || !isSameMark(live, desired);
}

/** In how many turns of `reapply` each namespace is once. */
export const TURNS = 10;

/** Returns whether a namespace that exists is applied again: in its turn (0 to 9), or with another desired state; pure. */
export function needsReapply(
  live: V1Namespace,
  desired: Marked,
  { environmentId }: Environment,
  turn: number | undefined,
): boolean {
  if (isTerminating(live)) return false;
  return environmentId.charCodeAt(environmentId.length - 1) % TURNS === turn || !isSameMark(live, desired);
}

const isTerminating = ({ metadata }: V1Namespace) => metadata?.deletionTimestamp !== undefined;
