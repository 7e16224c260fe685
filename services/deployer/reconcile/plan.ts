import { isDeepStrictEqual } from "node:util";
import { POOLER_MS } from "../addons/pooler-pauses.ts";
import type { Addon, AddonStatus } from "../addons/port.ts";
import type { BuildOutput } from "../projects/deletion-sql.ts";
import type { RecordedStatus } from "../releases/sql.ts";
import type { RuntimeStatus, Scale } from "../runtime/port.ts";
import { type AddonEngine, type AddonType, isDeployable, isKnown } from "../terms/services.ts";
import { autoscalingOf } from "../terms/stored-config.ts";
import type { Timeouts } from "../terms/timeouts.ts";
import type { UsageChange } from "../terms/usage-change.ts";

/** A deployment that has not ended. Times in ms since 1970. */
export type ActiveDeployment = {
  id: string;
  version: number;
  status: "queued" | "building" | "built";
  /** Source has to be built first; an image only to be applied. */
  fromSource: boolean;
  createdAt: number;
  buildStartedAt?: number | null;
  applyStartedAt?: number | null;
  /** At most until then it waits for addons that its variables refer to and that are still being created. */
  waitsUntil?: number | null;
  /** How far the command is that runs before it is applied. */
  releaseCommand?: "none" | "waiting" | "started" | "finished";
  releaseStartedAt?: number | null;
};

/** Whether an addon is to have a pooler, whether its keys lead through it, and until when one that they do not stays. */
export type DesiredPooler = { wanted: boolean; published: boolean; made: boolean; until?: number | null };

/** What the database says of one service. */
export type Desired = {
  now: number;
  type: string;
  environmentId: string;
  /** The account's plan. */
  tier?: string | null;
  staged: boolean;
  deleting: boolean;
  /** Whether it is stopped because nothing pays for it: it keeps its release, without replicas. */
  suspended?: boolean;
  addonState?: string | null;
  /** Whether an addon's password has to be replaced. */
  rotating?: boolean;
  size?: string;
  /** How many servers an addon is to have. */
  replicas?: number;
  /** How large the volumes of an addon are to be at least. */
  storageGib?: number | null;
  /** What an addon was made with. */
  engine?: AddonEngine | null;
  /** Of a postgres addon. */
  pooler?: DesiredPooler | null;
  active?: ActiveDeployment | null;
  /** The applied release. */
  live?: { version: number; revision: number; healthy: boolean; scale?: Scale; rolls?: number } | null;
  /** The newest version, and the newest revision of variables, that the database has given out. */
  newest: { version: number; revision: number };
  /** A version that runs and that no deployment has: the database was restored, and lost it. */
  keptVersion?: number | null;
  /** Builds that ended without a release, and releases that are not retained: they may have left something. */
  leftovers: Leftover[];
  /** Deployments whose release command is not needed now and may have left something, or may still run. */
  commandsLeft?: string[];
  /** When variables may have changed since they were last compared: the last and the first time. */
  dirtyAt?: number | null;
  dirtySince?: number | null;
  /** The runtime's status as recorded. */
  recorded: RecordedStatus;
};

/** What is observed of one service. */
export type Observed = {
  runtime?: RuntimeStatus;
  /** What the runtime holds in the environment is not known yet, and nothing of this service. */
  unread?: boolean;
  /** The addon's server; `shared` when it lives in a server that the deployer does not run. */
  addon?: AddonStatus | "shared";
  /** For how long its pooler, which does not serve yet, is not looked at. */
  poolerPauseMs?: number;
  /** The deployment that this process is building for the service. */
  building?: string;
};

/** What the builder may still hold for a deployment that no longer needs it. */
export type Leftover = BuildOutput & { deploymentId: string };

/** The addon of a service that is being deleted. */
export type AddonToRemove = Pick<Addon, "type" | "environmentId" | "engine">;

export type Action =
  | { do: "tear-down"; addon: AddonToRemove | undefined }
  /** Creates the addon, restarts its server, or resizes it. */
  | { do: "provision-addon" }
  | { do: "rotate-addon" }
  /** Makes the pooler of an addon, and publishes keys that lead through it. */
  | { do: "ensure-pooler" }
  /** Publishes keys that lead past it. */
  | { do: "withdraw-pooler" }
  | { do: "remove-pooler" }
  | { do: "record-addon"; status: AddonStatus }
  | { do: "stop-build" }
  | ({ do: "discard" } & Leftover)
  /** Moves to `building` whatever waits and may be built now, this deployment or others. */
  | { do: "admit-builds" }
  | { do: "build"; deploymentId: string }
  /** Starts the release command, or records how far it is. */
  | { do: "release-command"; deploymentId: string }
  /** Ends a release command, and removes what the runtime holds of it. */
  | { do: "remove-command"; deploymentId: string }
  | { do: "apply"; deploymentId: string }
  | { do: "fail"; deploymentId: string; stage: string; code: string; message: string }
  /** Applies the live release again, with the current variables. */
  | { do: "reapply-live" }
  /** Leaves running what was applied after the backup from which the database was restored. */
  | { do: "keep-unknown"; version: number; revision: number }
  /** Removes what the runtime runs and is no release of the service. */
  | { do: "remove-stray" }
  | { do: "compare-variables" }
  /** Scales the live release to the configured replicas and size, or to none while it is suspended. */
  | { do: "scale" }
  /** Rolls the live release, which users asked to restart. */
  | { do: "roll" }
  | { do: "record-status"; status: RuntimeStatus };

export type Plan = { actions: Action[]; wakeAt?: number };

/** How long a service waits for its environment to be read, if nothing reports that. */
const UNREAD_MS = 5_000;

/** After what time a service that only a newer version knows is left to whichever process takes it next. */
const UNKNOWN_MS = 5_000;

/** How often a running release command is looked at: it does not report its end. */
const COMMAND_MS = 1_000;

/**
 * Returns what to do next for one service, and when to plan again if nothing happens before
 * (docs/architecture.md#reconciler). Pure; an action that is performed twice has the effect of one.
 */
export function plan(desired: Desired, observed: Observed, timeouts: Timeouts): Plan {
  const stop: Action[] = observed.building ? [{ do: "stop-build" }] : [];
  if (!isKnown(desired.type)) return { actions: [], wakeAt: desired.now + UNKNOWN_MS };
  const deployable = isDeployable(desired.type);
  const unread = observed.unread && deployable;
  const commands = (desired.commandsLeft ?? []).map(
    (deploymentId): Action => ({ do: "remove-command", deploymentId }),
  );
  if (desired.deleting)
    return unread
      ? { actions: stop, wakeAt: desired.now + UNREAD_MS }
      : { actions: [...stop, ...commands, { do: "tear-down", addon: toAddon(desired) }] };
  if (desired.staged) return { actions: [] };
  if (!deployable) {
    const pooler = planPooler(desired, observed);
    return { ...pooler, actions: [...planAddon(desired, observed.addon), ...pooler.actions] };
  }

  const { active } = desired;
  const buildsActive = active?.status === "building" && active.id === observed.building;
  // Commands first: another deployment's does not begin beside one.
  const cleaning: Action[] = [...(buildsActive ? [] : stop), ...commands];
  // Last, as it needs the registry, which nothing else is to wait for.
  const discarding = desired.leftovers.map((left): Action => ({ do: "discard", ...left }));

  const deployment = active ? planDeployment(active, desired.now, observed, timeouts) : { actions: [] };
  // A deployment that is about to be applied brings its own variables and replaces what runs.
  const applying = deployment.actions.some((action) => action.do === "apply");
  const release = applying ? { actions: [] } : planRelease(desired, observed, timeouts);
  return {
    actions: [...cleaning, ...deployment.actions, ...release.actions, ...discarding],
    wakeAt: earliest(deployment.wakeAt, release.wakeAt),
  };
}

function planAddon(desired: Desired, server: Observed["addon"]): Action[] {
  const { addonState, recorded } = desired;
  // One that failed is tried again: what it lacked may be there by now.
  if (addonState !== "ready") return [{ do: "provision-addon" }];
  const shared = server === "shared";
  const actions: Action[] = [];
  if (server && !shared && addonStatusChanged(server, recorded))
    actions.push({ do: "record-addon", status: server });
  if (desired.rotating) return [...actions, { do: "rotate-addon" }];
  const settled = shared || (server?.running && isAsDesired(server, desired) && !server.outdated);
  return settled ? actions : [...actions, { do: "provision-addon" }];
}

/** While a password is replaced, that brings it to the pooler. */
function planPooler({ now, addonState, rotating, pooler }: Desired, { poolerPauseMs = 0 }: Observed): Plan {
  if (addonState !== "ready" || !pooler) return { actions: [] };
  const { wanted, published, made, until } = pooler;
  if (rotating) return { actions: [], ...(made && { wakeAt: now + POOLER_MS }) };
  if (wanted && published) return { actions: [] };
  if (wanted && poolerPauseMs > 0) return { actions: [], wakeAt: now + poolerPauseMs };
  if (wanted) return { actions: [{ do: "ensure-pooler" }], wakeAt: now + POOLER_MS };
  if (published) return { actions: [{ do: "withdraw-pooler" }] };
  if (!made) return { actions: [] };
  return until && now < until ? { actions: [], wakeAt: until } : { actions: [{ do: "remove-pooler" }] };
}

const isAsDesired = (server: AddonStatus, { size, replicas = 1, storageGib }: Desired) =>
  server.size === size &&
  (server.storageGib ?? 0) >= (storageGib ?? 0) &&
  (server.replicas === undefined || server.replicas === replicas);

/** Whether an addon's status has not been recorded yet. */
function addonStatusChanged(server: AddonStatus, recorded: RecordedStatus): boolean {
  return (
    hasUnrecordedUsage(server, recorded) || (server.problem?.message ?? null) !== (recorded.message ?? null)
  );
}

function toAddon({ type, environmentId, engine }: Desired): AddonToRemove | undefined {
  if (isDeployable(type)) return undefined;
  return { type: type as AddonType, environmentId, engine: engine ?? undefined };
}

function planDeployment(active: ActiveDeployment, now: number, observed: Observed, timeouts: Timeouts): Plan {
  const { id, status } = active;
  const fail = (stage: string, code: string, message: string): Plan => ({
    actions: [{ do: "fail", deploymentId: id, stage, code, message }],
  });
  if (status === "building") {
    const deadline = (active.buildStartedAt ?? active.createdAt) + timeouts.buildMs;
    if (now >= deadline)
      return fail("build", "build_timeout", `The build took longer than ${minutes(timeouts.buildMs)}.`);
    const here = observed.building === id;
    return { actions: here ? [] : [{ do: "build", deploymentId: id }], wakeAt: deadline };
  }
  const { releaseCommand = "none", releaseStartedAt } = active;
  if (releaseCommand === "started") {
    const deadline = (releaseStartedAt ?? now) + timeouts.releaseCommandMs;
    if (now >= deadline)
      return fail(
        "release",
        "release_command_timeout",
        `The release command took longer than ${minutes(timeouts.releaseCommandMs)} and was ended.`,
      );
    const wakeAt = Math.min(now + COMMAND_MS, deadline);
    return { actions: [{ do: "release-command", deploymentId: id }], wakeAt };
  }
  const queueDeadline = active.createdAt + timeouts.queueMs;
  const begun = active.applyStartedAt || releaseCommand === "finished";
  if (status === "queued" && (active.fromSource || !begun) && now >= queueDeadline)
    return fail(
      "queue",
      "queue_deadline_exceeded",
      `The deployment could not begin within ${minutes(timeouts.queueMs)}.`,
    );
  if (status === "queued" && active.fromSource)
    return { actions: [{ do: "admit-builds" }], wakeAt: queueDeadline };
  const deadline = (active.applyStartedAt ?? now) + timeouts.applyMs;
  if (now >= deadline)
    return fail(
      "apply",
      "apply_deadline_exceeded",
      `The deployment could not be applied within ${minutes(timeouts.applyMs)}.`,
    );
  const { waitsUntil } = active;
  if (waitsUntil && now < waitsUntil) return { actions: [], wakeAt: Math.min(waitsUntil, deadline) };
  const next = releaseCommand === "waiting" ? "release-command" : "apply";
  return { actions: [{ do: next, deploymentId: id }], wakeAt: deadline };
}

function planRelease(desired: Desired, observed: Observed, timeouts: Timeouts): Plan {
  const { live, active, now } = desired;
  // Not seen is not gone.
  if (observed.unread) return { actions: [], wakeAt: now + UNREAD_MS };
  const { runtime } = observed;
  if (runtime && isUnknown(desired, runtime))
    return { actions: [{ do: "keep-unknown", version: runtime.version, revision: runtime.revision }] };
  if (runtime && runtime.version === desired.keptVersion)
    return { actions: statusChanged(desired, runtime) ? [{ do: "record-status", status: runtime }] : [] };
  if (!live) return { actions: runtime && !active ? [{ do: "remove-stray" }] : [] };
  // Applied by a process that died before it could record it, and superseded since.
  const stray = runtime && runtime.version > live.version && runtime.version !== active?.version;
  if (stray) return { actions: active ? [] : [{ do: "remove-stray" }, { do: "reapply-live" }] };
  if (!runtime || runtime.version < live.version || runtime.revision < live.revision || runtime.drifted)
    return { actions: [{ do: "reapply-live" }] };
  const actions: Action[] = [];
  if (statusChanged(desired, runtime)) actions.push({ do: "record-status", status: runtime });
  if (needsScaling(desired, live, runtime)) actions.push({ do: "scale" });
  const current = runtime.version === live.version;
  const due = comparesAt(desired, current && isRollingOut(runtime), timeouts);
  if (due !== undefined && now >= due) return { actions: [...actions, { do: "compare-variables" }] };
  // Applied again by a process that died before it could record it: also one that takes no changes by itself is behind.
  if (due === undefined && current && runtime.revision > live.revision)
    return { actions: [...actions, { do: "reapply-live" }] };
  // Only once variables are compared: a release that is applied again for them is rolled by that.
  if (current && (runtime.rolls ?? 0) < (live.rolls ?? 0)) actions.push({ do: "roll" });
  return { actions, wakeAt: due };
}

/**
 * Returns from when on changed variables are compared. They wait for a release that is starting: each set that replaced
 * it would begin the wait for its health anew. One that fails is not waited for, as they may be what repairs it.
 */
function comparesAt({ dirtyAt, dirtySince }: Desired, rollingOut: boolean, timeouts: Timeouts) {
  if (!dirtyAt) return undefined;
  const since = dirtySince ?? dirtyAt;
  if (rollingOut) return since + timeouts.rolloutMs;
  return Math.min(dirtyAt + timeouts.debounceMs, since + timeouts.debounceMaxMs);
}

/** Whether a release has not been available yet, and nothing is wrong with it so far. */
const isRollingOut = ({ state, healthySince }: RuntimeStatus) =>
  state === "starting" && healthySince === undefined;

/** Whether what runs is newer than all that the database has given out, as after a restore. */
function isUnknown({ newest, live }: Desired, { version, revision }: RuntimeStatus): boolean {
  return version > newest.version || (version === live?.version && revision > newest.revision);
}

/** Whether the runtime's status has not been recorded yet. */
function statusChanged({ recorded, live }: Desired, status: RuntimeStatus): boolean {
  const healthy = status.version === live?.version && status.healthySince !== undefined;
  return (
    status.state !== (recorded.state ?? undefined) ||
    status.reason !== (recorded.reason ?? undefined) ||
    status.message !== (recorded.message ?? undefined) ||
    status.serving?.version !== (recorded.serving ?? undefined) ||
    status.url !== (recorded.url ?? undefined) ||
    (status.available !== undefined && status.available !== recorded.available) ||
    (healthy && !live?.healthy) ||
    hasUnrecordedUsage(status, recorded)
  );
}

function needsScaling(
  { suspended }: Desired,
  live: NonNullable<Desired["live"]>,
  { version, scale }: RuntimeStatus,
): boolean {
  if (version !== live.version || !live.scale || !scale) return false;
  const replicas = suspended ? 0 : live.scale.replicas;
  const autoscaling = autoscalingOf({ ...live.scale, replicas });
  if (scale.size !== live.scale.size || !isDeepStrictEqual(scale.autoscaling, autoscaling)) return true;
  // Of one that is scaled by its CPU, the cluster decides the number.
  return autoscaling === undefined && scale.replicas !== replicas;
}

/** Whether usage has not recorded all changes that were reported. */
function hasUnrecordedUsage({ usage }: { usage?: UsageChange[] }, { usageAt }: RecordedStatus): boolean {
  const last = usage?.at(-1);
  return last !== undefined && last.at !== usageAt;
}

function minutes(ms: number): string {
  return `${Math.round(ms / 60_000)} minutes`;
}

function earliest(...candidates: (number | undefined)[]): number | undefined {
  const known = candidates.filter((time) => time !== undefined);
  return known.length > 0 ? Math.min(...known) : undefined;
}
