import { rm } from "node:fs/promises";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import type { ControlGroups } from "../../../../kit/process/control-groups.ts";
import type { Walls } from "../../../../kit/process/walls.ts";
import { sizes } from "../../../../kit/sizes.ts";
import { endedUnwatched } from "../../../shared/alive-mark.ts";
import type { Logger } from "../../../shared/logger.ts";
import type { UsageChange } from "../../../terms/usage-change.ts";
import { appendUsage } from "../../../usage/journal.ts";
import type { Release, RuntimeStatus, Scale, ServedHost } from "../../port.ts";
import { refuseOlder } from "../../refusals.ts";
import type { PythonFolders } from "../artifact.ts";
import { outputPath } from "../logs/log-collector.ts";
import { openLogStore } from "../logs/log-store.ts";
import type { Router } from "../routing/router.ts";
import { createRecordWriter } from "./record/record-writer.ts";
import type { ServiceRecord } from "./record/service-record.ts";
import type { Sealer } from "./record/state-seal.ts";
import { adoptInstances } from "./replicas/adopt-instances.ts";
import type { InstanceContext } from "./replicas/instance.ts";
import { type Replica, type RestartTimes, superviseReplica } from "./replicas/replica.ts";
import { createRetirement } from "./replicas/retirement.ts";
import {
  addressesOf,
  countAvailable,
  isComplete,
  needsProcesses,
  nextRollout,
  type Rollout,
  recordsOf,
  restoreRollouts,
  slotOf,
  takesOver,
  toObservation,
} from "./replicas/rollout.ts";
import { describeStatus, type StatusRules } from "./status.ts";
import { createStatusReporter } from "./status-reporter.ts";

/** Times in ms. */
export type LocalTimes = RestartTimes &
  StatusRules & {
    /** How long requests that an old release has accepted may take. */
    drainMs: number;
    /** The grace period when everything is stopped. */
    stopGraceMs: number;
  };

export type ServiceContext = {
  folder: string;
  artifactsFolder: string;
  toolFolders: string[];
  python: PythonFolders;
  walls: Walls;
  groups: ControlGroups;
  router: Router;
  sealer: Sealer;
  log: Logger;
  times: LocalTimes;
  /** When an earlier process last watched the instances, in ms. */
  watchedUntil?: number;
  emit(status: RuntimeStatus): void;
};

type ServiceState = {
  /** The host label; empty for a worker. */
  label: string;
  usage: UsageChange[];
  /** At which it answers besides. */
  hosts: ServedHost[];
  /** The release applied last. */
  desired: Rollout;
  /** The release that requests reach; `desired` itself once it has taken over. */
  live?: Rollout;
};

export type Service = Awaited<ReturnType<typeof openService>>;

/**
 * Runs one service on this machine: keeps the replicas of its releases running and rolls over from one to the next.
 * Adopts the instances of `record` that still run, ends what is left of others and starts what is missing.
 */
export async function openService(context: ServiceContext, record: ServiceRecord) {
  const { router, times, log } = context;
  const { serviceId } = record;
  const logs = openLogStore(join(context.folder, "log"));
  const home: InstanceContext = { ...context, folder: join(context.folder, "instances"), logs };
  const writer = createRecordWriter(context, () => toRecord());
  // Later is soon enough: a process that has ended is not adopted.
  const retirement = createRetirement({ ...context, serviceId }, times, writer.writeLater);
  const reporter = createStatusReporter(status, msUntilDeadline, context.emit);
  let stopping = false;

  const endedAt = endedUnwatched(context.watchedUntil, outputPaths(home, record));
  const { adopted, swept } = await adoptInstances(home, record, times.graceMs);
  if (adopted.size > 0) log.info({ serviceId, instances: adopted.size }, "adopted running instances");
  const leftoversEnded = swept.catch((error) =>
    log.error({ err: error, serviceId }, "could not end leftover instances"),
  );
  const { label, usage = [], hosts = [] } = record;
  let state: ServiceState = { label, usage, hosts, ...restoreRollouts(record) };
  routeHosts();
  if (state.live && state.live !== state.desired) fillUp(state.live);
  fillUp(state.desired);
  if (state.usage.length > 0) countUsage(endedAt);
  changed();

  /** Brings the number of replicas to what the release says. */
  function fillUp(rollout: Rollout): void {
    const { release, generation } = rollout.record;
    for (const replica of rollout.replicas.splice(release.replicas)) retirement.retire(replica);
    for (const one of recordsOf(rollout.replicas)) home.groups.limit(one.name, sizes[release.size]);
    while (rollout.replicas.length < release.replicas) {
      const index = rollout.replicas.length;
      const slot = slotOf(generation, index);
      rollout.replicas.push(superviseReplica(home, rollout.record, index, times, adopted.get(slot), changed));
      adopted.delete(slot);
    }
  }

  /** Does what follows from a change: switches releases, routes requests, writes the record, reports the status. */
  function changed(): void {
    if (stopping) return;
    const { desired, live } = state;
    if (isComplete(desired)) desired.record.availableAt ??= Date.now();
    const switches = takesOver(desired, live);
    if (switches) state.live = desired;
    route();
    if (switches) for (const replica of live?.replicas ?? []) retirement.retire(replica);
    countUsage(Date.now());
    writer.tryWrite();
    reporter.report();
  }

  function route(): void {
    if (state.label !== "") router.route(state.label, addressesOf(state.live), access());
  }

  /** Closed at once, and opened when a public release has taken over. */
  function access(): "public" | "private" {
    const { desired, live = desired } = state;
    return [desired, live].some(({ record: { release } }) => release.public === false) ? "private" : "public";
  }

  /** Routes the hosts to the service's label; without one, it serves none. */
  function routeHosts(): void {
    for (const host of state.hosts)
      if (state.label === "") router.forgetHost(host.host);
      else router.routeHost(host, state.label);
  }

  function countUsage(at: number): void {
    const { desired, live, usage } = state;
    const replicas = live && !stopping ? countAvailable(live) : 0;
    state.usage = appendUsage(usage, { at, replicas, size: (live ?? desired).record.release.size });
  }

  /** Returns the record to write; `replaced` are replicas that are about to retire. */
  function toRecord({
    replaced = [],
    removed,
  }: {
    replaced?: Replica[];
    removed?: true;
  } = {}): ServiceRecord {
    const { label, usage, hosts, desired, live } = state;
    const others = live === desired ? [] : (live?.replicas ?? []);
    const instances = recordsOf([...desired.replicas, ...replaced, ...others, ...retirement.replicas()]);
    return {
      serviceId,
      label,
      desired: desired.record,
      live: live?.record,
      instances,
      usage,
      hosts,
      removed,
    };
  }

  function msUntilDeadline(): number | undefined {
    const { appliedAt, availableAt } = state.desired.record;
    const left = appliedAt + times.rolloutDeadlineMs - Date.now();
    return availableAt === undefined && left > 0 ? left : undefined;
  }

  function status(): RuntimeStatus {
    const { label, usage, hosts, desired, live } = state;
    const { type, replicas, size, autoscaling, rolls } = desired.record.release;
    const observation = {
      serviceId,
      url: type === "web" && desired.record.release.public !== false ? router.urlOf(label) : undefined,
      stopping,
      desired: toObservation(desired),
      live: live && toObservation(live),
    };
    const described = describeStatus(observation, times, Date.now());
    const scale = { replicas, size, ...(autoscaling && { autoscaling }) };
    const more = { ...(rolls && { rolls }), ...(hosts.length > 0 && { hosts }) };
    return { ...described, usage, scale, ...more };
  }

  /** Rolls over to the release, or only scales when the processes can stay. */
  function apply(release: Release, label: string): void {
    const before = state.label;
    const current = state.desired.record.release;
    if (isDeepStrictEqual(current, release) && before === label) return;
    refuseOlder(current, release);
    if (needsProcesses(current, release)) rollOver(release, label);
    else {
      state.label = label;
      state.desired.record.release = release;
      fillUp(state.desired);
    }
    if (label !== before) {
      router.forget(before);
      routeHosts();
    }
    changed();
  }

  function rollOver(release: Release, label: string): void {
    const before = state;
    const replaced = before.live === before.desired ? [] : before.desired.replicas;
    state = { ...before, label, desired: nextRollout(before.desired, release, Date.now()) };
    try {
      writer.write(toRecord({ replaced })); // first, so that after a hard kill new processes belong to a record
    } catch (error) {
      state = before; // the disk is full: nothing has been applied
      throw error;
    }
    for (const replica of replaced) retirement.retire(replica);
    fillUp(state.desired);
  }

  return {
    logs,
    status,
    /** Returns what is to be measured: its instances, those that are being replaced too, and what was counted here. */
    measurable() {
      const { label, desired, live } = state;
      const { generation, appliedAt, restarts } = desired.record;
      return {
        ...{ serviceId, label, instances: toRecord().instances },
        replicas: countAvailable(live ?? desired),
        restarts: { source: `restarts ${generation}`, since: appliedAt, restarts },
      };
    },
    label: () => state.label,
    isPrivate: () => access() === "private",
    names: () => state.desired.record.release.names,
    apply,

    /** Starts new processes for the same release. */
    roll(version: number, rolls: number): void {
      const { release } = state.desired.record;
      if (release.version !== version || (release.rolls ?? 0) >= rolls || stopping) return;
      apply({ ...release, rolls }, state.label);
    },

    /** Sets the number of replicas and the size; replicas that stay keep their processes. */
    scale(version: number, wanted: Scale): void {
      const { record: applied } = state.desired;
      if (applied.release.version !== version || stopping) return;
      const { autoscaling: _, ...release } = applied.release;
      applied.release = { ...release, ...wanted };
      fillUp(state.desired);
      changed();
    },

    /** Answers at these hosts too, and no longer at those that it was told before. */
    setHosts(hosts: ServedHost[]): void {
      if (stopping) return;
      const before = state;
      state = { ...before, hosts };
      try {
        writer.write(toRecord()); // first, so that a killed process forgets none that was reported as served
      } catch (error) {
        state = before;
        throw error;
      }
      const names = new Set(hosts.map(({ host }) => host));
      for (const { host } of before.hosts) if (!names.has(host)) router.forgetHost(host);
      routeHosts();
      reporter.report();
    },

    /** Ends every process; `forever` also removes the service's record and logs. */
    async stop(forever: boolean): Promise<void> {
      const first = !stopping;
      stopping = true;
      reporter.close();
      writer.close();
      router.forget(state.label);
      for (const { host } of state.hosts) router.forgetHost(host);
      if (first && forever) writer.tryWrite(toRecord({ removed: true }));
      const grace = forever ? times.graceMs : times.stopGraceMs;
      const { desired, live } = state;
      const all = new Set([...desired.replicas, ...(live?.replicas ?? []), ...retirement.replicas()]);
      await Promise.all([...all].map((replica) => replica.retire(grace)));
      await Promise.all([retirement.allEnded(), leftoversEnded]);
      countUsage(Date.now());
      if (first && !forever) writer.tryWrite();
      logs.close();
      if (forever) await rm(context.folder, { recursive: true, force: true });
    },
  };
}

function outputPaths(home: InstanceContext, { instances }: ServiceRecord): string[] {
  return instances.flatMap(({ name }) =>
    (["stdout", "stderr"] as const).map((stream) => outputPath(join(home.folder, name), stream)),
  );
}
