import type { Addon, AddonStatus, AddonType } from "../addons/port.ts";
import type { BuildOutput } from "../catalog/deletion-sql.ts";
import { isDeployable } from "../catalog/service-config.ts";
import type { RuntimeStatus, Scale, UsageChange } from "../runtime/port.ts";
import type { Timeouts } from "./timeouts.ts";

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
  /** Until then it waits for addons that its variables name and that are still being made. */
  waitsUntil?: number | null;
};

/** What the database says about one service. */
export type Desired = {
  now: number;
  type: string;
  environmentId: string;
  /** The account's plan. */
  tier?: string | null;
  staged: boolean;
  deleting: boolean;
  addonState?: string | null;
  /** An addon's password is to be replaced. */
  rotating?: boolean;
  size?: string;
  active?: ActiveDeployment | null;
  /** The applied release. */
  live?: { version: number; revision: number; healthy: boolean; scale?: Scale; rolls?: number } | null;
  /** Builds that ended without a release, and releases that are not retained: they may have left something. */
  leftovers: Leftover[];
  /** Variables may have changed: last and first time since they were compared. */
  dirtyAt?: number | null;
  dirtySince?: number | null;
  /** The runtime's status as recorded. */
  recorded: RecordedStatus;
};

export type RecordedStatus = {
  state?: string | null;
  reason?: string | null;
  message?: string | null;
  serving?: number | null;
  url?: string | null;
  /** The last change of what runs that usage has taken. */
  usageAt?: number | null;
};

/** What is really going on. */
export type Observed = {
  runtime?: RuntimeStatus;
  /** The server of an addon; `shared`: it lives in one of others, which nobody has to look after. */
  addon?: AddonStatus | "shared";
  /** Deployment that this process is building for the service. */
  building?: string;
  /** This process can begin another build. */
  builderFree: boolean;
};

/** What the builder may hold for a deployment that needs it no longer. */
export type Leftover = BuildOutput & { deploymentId: string };

/** The addon of a service that is being deleted. */
export type AddonToRemove = Pick<Addon, "type" | "environmentId">;

export type Action =
  | { do: "tear-down"; addon: AddonToRemove | undefined }
  /** Makes an addon, or brings its server back or to another size. */
  | { do: "provision-addon" }
  | { do: "rotate-addon" }
  | { do: "record-addon"; status: AddonStatus }
  | { do: "stop-build" }
  | ({ do: "discard" } & Leftover)
  | { do: "build"; deploymentId: string }
  | { do: "apply"; deploymentId: string }
  | { do: "fail"; deploymentId: string; stage: string; code: string; message: string }
  /** Applies the live release again, with the current variables. */
  | { do: "reapply-live" }
  /** The runtime runs something that is nobody's release. */
  | { do: "remove-stray" }
  | { do: "compare-variables" }
  /** Brings the live release to the configured replicas and size. */
  | { do: "scale" }
  /** Rolls the live release as often as users asked for it. */
  | { do: "roll" }
  | { do: "record-status"; status: RuntimeStatus };

export type Plan = { actions: Action[]; wakeAt?: number };

/**
 * What to do next for one service, and when to look again if nothing happens (docs/architecture.md#reconciler). Pure:
 * everything it knows is given, and doing an action twice is doing it once.
 */
export function plan(desired: Desired, observed: Observed, timeouts: Timeouts): Plan {
  const stop: Action[] = observed.building ? [{ do: "stop-build" }] : [];
  if (desired.deleting) return { actions: [...stop, { do: "tear-down", addon: toAddon(desired) }] };
  if (desired.staged) return { actions: [] };
  if (!isDeployable(desired.type)) return { actions: planAddon(desired, observed.addon) };

  const { active } = desired;
  const wanted = active?.status === "building" && active.id === observed.building;
  const cleaning: Action[] = wanted ? [] : stop;
  cleaning.push(...desired.leftovers.map((left) => ({ do: "discard" as const, ...left })));

  const pipeline = active ? planDeployment(active, desired.now, observed, timeouts) : { actions: [] };
  // What is about to be applied brings its own variables and replaces what runs.
  const applying = pipeline.actions.some((action) => action.do === "apply");
  const release = applying ? { actions: [] } : planRelease(desired, observed, timeouts);
  return {
    actions: [...cleaning, ...pipeline.actions, ...release.actions],
    wakeAt: earliest(pipeline.wakeAt, release.wakeAt),
  };
}

function planAddon(desired: Desired, server: Observed["addon"]): Action[] {
  const { addonState, recorded } = desired;
  // What failed for want of something is made once that is there.
  if (addonState !== "ready") return [{ do: "provision-addon" }];
  const shared = server === "shared";
  const actions: Action[] = [];
  if (server && !shared && addonStatusChanged(server, recorded))
    actions.push({ do: "record-addon", status: server });
  if (desired.rotating) return [...actions, { do: "rotate-addon" }];
  const settled = shared || (server?.running && server.size === desired.size);
  return settled ? actions : [...actions, { do: "provision-addon" }];
}

/** Whether an addon's status has not been recorded yet. */
function addonStatusChanged(server: AddonStatus, recorded: RecordedStatus): boolean {
  return (
    hasUnrecordedUsage(server, recorded) || (server.problem?.message ?? null) !== (recorded.message ?? null)
  );
}

function toAddon({ type, environmentId }: Desired): AddonToRemove | undefined {
  return isDeployable(type) ? undefined : { type: type as AddonType, environmentId };
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
    return {
      actions: here || !observed.builderFree ? [] : [{ do: "build", deploymentId: id }],
      wakeAt: deadline,
    };
  }
  const queued = active.createdAt + timeouts.queueMs;
  if (status === "queued" && (active.fromSource || !active.applyStartedAt) && now >= queued)
    return fail(
      "queue",
      "queue_deadline_exceeded",
      `It could not begin within ${minutes(timeouts.queueMs)}.`,
    );
  if (status === "queued" && active.fromSource)
    return { actions: observed.builderFree ? [{ do: "build", deploymentId: id }] : [], wakeAt: queued };
  const deadline = (active.applyStartedAt ?? now) + timeouts.applyMs;
  if (now >= deadline)
    return fail(
      "apply",
      "apply_deadline_exceeded",
      `It could not be applied within ${minutes(timeouts.applyMs)}.`,
    );
  const { waitsUntil } = active;
  if (waitsUntil && now < waitsUntil) return { actions: [], wakeAt: Math.min(waitsUntil, deadline) };
  return { actions: [{ do: "apply", deploymentId: id }], wakeAt: deadline };
}

function planRelease(desired: Desired, observed: Observed, timeouts: Timeouts): Plan {
  const { live, active, now } = desired;
  const { runtime } = observed;
  if (!live) return { actions: runtime && !active ? [{ do: "remove-stray" }] : [] };
  // A release that was applied by a process which died before it could record it, and then was superseded.
  const stray = runtime && runtime.version > live.version && runtime.version !== active?.version;
  if (stray) return { actions: active ? [] : [{ do: "remove-stray" }, { do: "reapply-live" }] };
  if (!runtime || runtime.version < live.version || runtime.revision < live.revision || runtime.drifted)
    return { actions: [{ do: "reapply-live" }] };
  const actions: Action[] = [];
  if (statusChanged(desired, runtime)) actions.push({ do: "record-status", status: runtime });
  if (needsScaling(live, runtime)) actions.push({ do: "scale" });
  const current = runtime.version === live.version;
  const due = desired.dirtyAt
    ? Math.min(
        desired.dirtyAt + timeouts.debounceMs,
        (desired.dirtySince ?? desired.dirtyAt) + timeouts.debounceMaxMs,
      )
    : undefined;
  if (due === undefined ? current && runtime.revision > live.revision : now >= due)
    return { actions: [...actions, { do: "compare-variables" }] };
  // After a refresh it may be done: what is applied again is rolled by that.
  if (current && (runtime.rolls ?? 0) < (live.rolls ?? 0)) actions.push({ do: "roll" });
  return { actions, wakeAt: due };
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
    (healthy && !live?.healthy) ||
    hasUnrecordedUsage(status, recorded)
  );
}

function needsScaling(live: NonNullable<Desired["live"]>, { version, scale }: RuntimeStatus): boolean {
  if (version !== live.version || !live.scale || !scale) return false;
  return scale.replicas !== live.scale.replicas || scale.size !== live.scale.size;
}

/** Whether usage has not taken all changes of what runs. */
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
