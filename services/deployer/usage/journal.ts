import type { UsageChange } from "../terms/usage-change.ts";

/** More changes than happen while the deployer's database is away. */
const MAX_CHANGES = 100;

/** Returns the journal with a change appended, or the same journal when nothing changed. Its times strictly grow. */
export function appendUsage(journal: UsageChange[], change: UsageChange): UsageChange[] {
  const last = journal.at(-1);
  if (last && last.replicas === change.replicas && (change.replicas === 0 || last.size === change.size))
    return journal;
  const at = Math.max(change.at, (last?.at ?? 0) + 1);
  return [...journal, { ...change, at }].slice(-MAX_CHANGES);
}
