/** Fences that the mirror can leave out, to show that the model notices. */
export const FENCES = {
  "applies any version": "markApplied does not ask for the newest version",
  "applies what has ended": "markApplied does not ask for a state that is not final",
  "applies without the lease": "lockWhileLeased does not ask who holds the lease",
  "builds without the lease": "isBuilding and finishBuild do not ask who holds the lease",
  "fails what has ended": "markFailed does not ask for a state that is not final",
  "supersedes nothing": "accept leaves older deployments as they are",
  "forgets wakes": "release drops an earlier time at which the service is due",
  "forgets changes": "recordRelease and recordComparison clear every mark of changed variables",
  "keeps the dead": "leases of killed processes never become free",
  "claims what is leased": "work_claim takes what is due, whoever holds its lease",
  "moves in silence": "a new name of the project leaves the revision as it is",
  "reuses revisions": "assignRevision gives every set of variables the same revision",
} as const;
export type Fence = keyof typeof FENCES;

/** Returns whether the mirror leaves a fence out. */
export type Without = (fence: Fence) => boolean;
