import { defineTask } from "../kit/tasks/task.ts";

/** On a cluster one process is elected; on one machine there is one. */
const DECIDES = "the leading deployer";
const WATCHES = "the leading deployer, on a cluster";

export const CLAIM = defineTask({
  name: "claim",
  does: "Leases the services that are due, and starts a step of each.",
  everyMs: 5_000,
  retryMs: 1_000,
  atOnce: true,
  where: DECIDES,
});

export const RENEW_LEASES = defineTask({
  name: "renew-leases",
  does: "Renews the leases of the services in progress, and hands over builds whose lease was lost.",
  everyMs: 15_000,
  atOnce: true,
  where: DECIDES,
});

export const RESYNC = defineTask({
  name: "resync",
  does: "Compares the database with what is running, and marks differing services as due.",
  everyMs: 15_000,
  atOnce: true,
  where: DECIDES,
});

export const RECORD_RUNNING = defineTask({
  name: "record-running",
  does: "Records which services are running, for usage.",
  everyMs: 60_000,
  atOnce: true,
  where: DECIDES,
});

export const SAMPLE_METRICS = defineTask({
  name: "sample-metrics",
  does: "Measures what services use, and adds it to their metrics of the current minute.",
  everyMs: 30_000,
  where: DECIDES,
});

/** Woken when a build ends; the period finds those that ended while no process ran them, and plans that changed. */
export const ADMIT_BUILDS = defineTask({
  name: "admit-builds",
  does: "Starts waiting builds while slots are free.",
  everyMs: 15_000,
  where: DECIDES,
});

export const SWEEP = defineTask({
  name: "sweep",
  does: "Deletes unused uploads, and the images and builds of deployments that are no longer retained.",
  everyMs: 3_600_000,
  atOnce: true,
  where: DECIDES,
});

export const COMPARE = defineTask({
  name: "compare",
  does: "Compares the objects in the cluster with the applied configuration.",
  everyMs: 30_000,
  atOnce: true,
  where: WATCHES,
});

export const FOLLOW_PLANS = defineTask({
  name: "follow-plans",
  does: "Applies namespaces again, one after another, when the plan of an account or the settings have changed.",
  everyMs: 60_000,
  atOnce: true,
  where: WATCHES,
});

export const GROW_VOLUMES = defineTask({
  name: "grow-volumes",
  does: "Lets the volumes of addons grow that are nearly full, and tells of those that do not.",
  everyMs: 300_000,
  where: "the leading deployer, on a cluster with a Prometheus",
});

/** Woken when notifications may have been missed. */
export const FIND_MISSED_CHANGES = defineTask({
  name: "find-missed-changes",
  does: "Compares followed environments with the database, and deletes old records of their changes.",
  everyMs: 60_000,
  retryMs: 1_000,
});

/** Woken by requests of its own process. */
export const CHECK_DOMAINS = defineTask({
  name: "check-domains",
  does: "Looks up the records of domains that are due, and has their services serve those that are proved.",
  everyMs: 2_000,
  atOnce: true,
  where: DECIDES,
});

export const COMPARE_DOMAINS = defineTask({
  name: "compare-domains",
  does: "Compares the domains that services serve with those that are proved.",
  everyMs: 300_000,
  where: DECIDES,
});

/** Early when a time of a schedule comes. */
export const START_SCHEDULED = defineTask({
  name: "start-scheduled",
  does: "Starts the runs of cron services whose time has come.",
  everyMs: 10_000,
  retryMs: 1_000,
  atOnce: true,
  where: DECIDES,
});

/** Woken by requests of its own process, and early when a run is due. */
export const MOVE_RUNS = defineTask({
  name: "move-runs",
  does: "Starts the runs that are due, records their output and how they end, and removes what is left of them.",
  everyMs: 2_000,
  retryMs: 1_000,
  atOnce: true,
  where: DECIDES,
});

/** Woken by requests of its own process, by addons that become ready, and early when one is due. */
export const MOVE_BACKUPS = defineTask({
  name: "move-backups",
  does: "Makes, restores and removes backups of addons.",
  everyMs: 5_000,
  retryMs: 1_000,
  atOnce: true,
  where: DECIDES,
});

export const START_NIGHTLY = defineTask({
  name: "start-nightly",
  does: "Begins the nightly backup of each addon at its time.",
  everyMs: 60_000,
  atOnce: true,
  where: DECIDES,
});

/** Early when one is due again. */
export const PROVE_BACKUPS = defineTask({
  name: "prove-backups",
  does: "Restores a backup of one addon each night to the side, reads it, and throws it away.",
  everyMs: 60_000,
  atOnce: true,
  where: DECIDES,
});

export const SWEEP_BACKUPS = defineTask({
  name: "sweep-backups",
  does: "Removes the backups of deleted addons whose time is over, and uploads of which no backup was made.",
  everyMs: 60_000,
  atOnce: true,
  where: DECIDES,
});
