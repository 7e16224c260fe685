/** Fences that the model can do without, to show that it finds out. */
export const FENCES = {
  "applies any version": "markApplied does not ask for the newest version",
  "applies what has ended": "markApplied does not ask for a state that is not final",
  "applies without the lease": "lockWhileLeased does not ask who holds the lease",
  "builds without the lease": "beginBuild and finishBuild do not ask who holds the lease",
  "fails what has ended": "markFailed does not ask for a state that is not final",
  "supersedes nothing": "accept leaves older deployments as they are",
  "forgets wakes": "release does not keep an earlier time to look again",
  "forgets changes": "recordRelease and recordComparison clear every mark of changed variables",
  "keeps the dead": "leases of killed processes run their time, and are never free",
  "claims what is leased": "work_claim takes what is due, whoever holds its lease",
  "reuses revisions": "assignRevision gives every set of variables the same revision",
} as const;
export type Fence = keyof typeof FENCES;

/** Whether the mirror does without a fence. */
export type Without = (fence: Fence) => boolean;
