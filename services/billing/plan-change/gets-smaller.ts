import type { Entitlements } from "../../kit/plans.ts";
import { sizes } from "../../kit/sizes.ts";

/** Returns what gets smaller with a plan, as sentences (docs/billing.md#changing-the-plan); addons are counted elsewhere. Pure. */
export function getsSmaller(before: Entitlements, after: Entitlements): string[] {
  const [old, size] = [before.largestSize, after.largestSize];
  const closed = before.openPorts.filter((port) => !after.openPorts.includes(port));
  return [
    ...said(
      after.historyDepth < before.historyDepth,
      `Of each service, ${after.historyDepth} versions that were live are retained instead of ${before.historyDepth}. Older ones are deleted, and can no longer be rolled back to.`,
    ),
    ...said(
      after.buildsAtOnce < before.buildsAtOnce,
      `Up to ${after.buildsAtOnce} builds run at once instead of ${before.buildsAtOnce}.`,
    ),
    ...said(
      after.storageGib < before.storageGib,
      `The volume of an addon can have ${after.storageGib} GiB at most. Those that are larger keep their size.`,
    ),
    ...said(
      after.domains < before.domains,
      `The account can have ${after.domains} domains instead of ${before.domains}. It keeps those that it has.`,
    ),
    ...said(
      after.runsAtOnce < before.runsAtOnce,
      `Up to ${after.runsAtOnce} runs can be under way instead of ${before.runsAtOnce}.`,
    ),
    ...said(
      size !== undefined && (old === undefined || sizes[size].cpu < sizes[old].cpu),
      `Services can be of size ${size} at most. Those that are larger keep their size.`,
    ),
    ...said(
      after.backupDays < before.backupDays,
      `The last backup of a deleted addon is kept for ${after.backupDays} days instead of ${before.backupDays}.`,
    ),
    ...said(
      closed.length > 0,
      `Services can no longer connect to port ${closed.join(", ")} of mail servers.`,
    ),
  ];
}

const said = (isSo: boolean, sentence: string) => (isSo ? [sentence] : []);
