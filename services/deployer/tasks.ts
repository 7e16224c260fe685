import { defineTask } from "../kit/tasks/task.ts";

/** On a cluster one process is elected; on one machine there is one. */
const DECIDES = "the deployer that decides";
const WATCHES = "the deployer that decides, on a cluster";

export const CLAIM = defineTask({
  name: "claim",
  does: "Leases the services that are due and begins a step of each.",
  everyMs: 5_000,
  retryMs: 1_000,
  atOnce: true,
  where: DECIDES,
});

export const RENEW_LEASES = defineTask({
  name: "renew-leases",
  does: "Prolongs the leases of the services that are worked on, and hands builds over whose lease was lost.",
  everyMs: 15_000,
  atOnce: true,
  where: DECIDES,
});

export const RESYNC = defineTask({
  name: "resync",
  does: "Compares the database with what runs, and has differing services reconciled.",
  everyMs: 15_000,
  atOnce: true,
  where: DECIDES,
});

export const RECORD_RUNNING = defineTask({
  name: "record-running",
  does: "Records which services run, for what is paid by time.",
  everyMs: 60_000,
  atOnce: true,
  where: DECIDES,
});

/** Woken when a build ends; the period finds those that ended while no process ran them, and plans that changed. */
export const ADMIT_BUILDS = defineTask({
  name: "admit-builds",
  does: "Lets waiting builds begin where there are slots.",
  everyMs: 15_000,
  where: DECIDES,
});

export const SWEEP = defineTask({
  name: "sweep",
  does: "Deletes uploads that nothing uses, and what deployments beyond the retained ones left.",
  everyMs: 3_600_000,
  atOnce: true,
  where: DECIDES,
});

export const COMPARE = defineTask({
  name: "compare",
  does: "Compares the objects in the cluster with what was applied.",
  everyMs: 30_000,
  atOnce: true,
  where: WATCHES,
});

export const FOLLOW_PLANS = defineTask({
  name: "follow-plans",
  does: "Applies namespaces again, in turn, where an account's plan or the settings have changed.",
  everyMs: 60_000,
  atOnce: true,
  where: WATCHES,
});
