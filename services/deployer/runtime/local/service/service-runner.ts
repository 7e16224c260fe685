import { rm } from "node:fs/promises";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { endedUnwatched, noteUsage } from "../../../usage/journal.ts";
import type { Logger, Release, RuntimeStatus, Scale } from "../../port.ts";
import { outputPath } from "../logs/log-collector.ts";
import { openLogStore } from "../logs/log-store.ts";
import type { Router } from "../routing/router.ts";
import { adoptInstance, type Instance, type InstanceContext, sweepInstances } from "./instance.ts";
import { type Replica, type RestartTimes, superviseReplica } from "./replica.ts";
import {
  countAvailable,
  needsProcesses,
  type Rollout,
  refuseOlder,
  slotOf,
  toObservation,
} from "./rollout.ts";
import { type InstanceRecord, type ServiceRecord, writeServiceRecord } from "./service-record.ts";
import type { Sealer } from "./state-seal.ts";
import { describeStatus, type StatusRules } from "./status.ts";

/** Times in ms. */
export type LocalTimes = RestartTimes &
  StatusRules & {
    /** How long requests under way on an old release may take. */
    drainMs: number;
    /** The grace period when everything is stopped. */
    stopGraceMs: number;
  };

export type ServiceContext = {
  folder: string;
  artifactsFolder: string;
  toolFolders: string[];
  router: Router;
  sealer: Sealer;
  log: Logger;
  times: LocalTimes;
  /** Until when an earlier process watched the instances, in ms. */
  watchedUntil?: number;
  emit(status: RuntimeStatus): void;
};

const NOTE_LATER_MS = 1_000;

export type Service = Awaited<ReturnType<typeof openService>>;

/**
 * One service on this machine: its applied release (`desired`), the one that requests reach (`live`), and
 * the roll-over between them. Takes over the instances of `record` that still run, ends what is left of
 * others, starts what is missing.
 */
export async function openService(context: ServiceContext, record: ServiceRecord) {
  const { router, times, log } = context;
  const logs = openLogStore(join(context.folder, "log"));
  const home: InstanceContext = { ...context, folder: join(context.folder, "instances"), logs };
  let { label, usage = [] } = record;
  let stopping = false;
  let lastStatus: RuntimeStatus | undefined;
  let saved = "";
  let later: NodeJS.Timeout | undefined;
  let troubled = false;
  let deadline: NodeJS.Timeout | undefined;
  const retiring = new Map<Replica, Promise<void>>();
  const failed = (message: string) => (error: unknown) => {
    log.error({ err: error, serviceId: record.serviceId }, message);
  };
  let swept: Promise<void> | undefined;

  const outputs = record.instances.flatMap(({ name }) =>
    (["stdout", "stderr"] as const).map((stream) => outputPath(join(home.folder, name), stream)),
  );
  const endedAway = endedUnwatched(context.watchedUntil, outputs);
  const adopted = await adoptAll();
  let desired: Rollout = { record: record.desired, replicas: [] };
  let live: Rollout | undefined = record.live && { record: record.live, replicas: [] };
  if (live?.record.generation === desired.record.generation) live = desired;
  if (live && live !== desired) scale(live);
  scale(desired);
  if (usage.length > 0) countUsage(endedAway);
  changed();

  async function adoptAll(): Promise<Map<string, Instance>> {
    const wanted = record.instances.filter(
      ({ generation, replica }) =>
        (generation === record.desired.generation && replica < record.desired.release.replicas) ||
        generation === record.live?.generation,
    );
    const found = new Map<string, Instance>();
    for (const one of wanted) {
      const instance = await adoptInstance(home, one);
      if (instance) found.set(slotOf(one.generation, one.replica), instance);
    }
    const kept = new Set([...found.values()].map((instance) => instance.record.name));
    swept = sweepInstances(home, record.instances, kept, times.graceMs).catch(
      failed("leftovers could not be ended"),
    );
    if (kept.size > 0)
      log.info({ serviceId: record.serviceId, instances: kept.size }, "took over running instances");
    return found;
  }

  /** Brings the number of replicas to what the release says. */
  function scale(rollout: Rollout): void {
    const { release, generation } = rollout.record;
    for (const replica of rollout.replicas.splice(release.replicas)) retire(replica);
    while (rollout.replicas.length < release.replicas) {
      const index = rollout.replicas.length;
      const slot = slotOf(generation, index);
      rollout.replicas.push(superviseReplica(home, rollout.record, index, times, adopted.get(slot), changed));
      adopted.delete(slot);
    }
  }

  /** Requests that it has taken are answered first: by then none reaches it any more. */
  function retire(replica: Replica): void {
    const drained = async ({ host, port }: InstanceRecord) => {
      if (host !== undefined) await router.drained({ host, port }, times.drainMs);
    };
    const ended = replica.retire(times.graceMs, drained).catch(failed("an instance could not be ended"));
    retiring.set(
      replica,
      ended.finally(() => {
        retiring.delete(replica);
        // Not at once: until then the record names a process that has ended, which nothing takes over.
        if (!stopping) noteLater();
      }),
    );
  }

  /** Everything that follows from a change: who serves, where requests go, what is on disk, who is told. */
  function changed(): void {
    if (stopping) return;
    const ready = countAvailable(desired);
    const whole = ready === desired.record.release.replicas;
    if (whole && ready > 0) desired.record.availableAt ??= Date.now();
    if (live !== desired && (whole || (ready > 0 && (live === undefined || countAvailable(live) === 0)))) {
      const before = live;
      live = desired;
      route();
      for (const replica of before?.replicas ?? []) retire(replica);
    } else route();
    countUsage(Date.now());
    note();
    tell();
  }

  function countUsage(at: number): void {
    const replicas = live && !stopping ? countAvailable(live) : 0;
    usage = noteUsage(usage, { at, replicas, size: (live ?? desired).record.release.size });
  }

  function route(): void {
    if (label === "") return; // a worker
    const targets = (live?.replicas ?? []).filter((one) => one.available()).map((one) => one.record());
    router.route(
      label,
      targets.flatMap((one) => (one?.host ? [{ host: one.host, port: one.port }] : [])),
    );
  }

  /** As `save`; what the disk has no room for is written later. What happens does not wait for it. */
  function note(removed?: true): void {
    try {
      save(removed);
      troubled = false;
    } catch (error) {
      if (!troubled) failed("its state could not be written; it is tried again")(error);
      troubled = true;
      if (!stopping) noteLater();
    }
  }

  function noteLater(): void {
    later ??= setTimeout(() => {
      later = undefined;
      if (!stopping) note();
    }, NOTE_LATER_MS).unref();
  }

  function save(removed?: true, replaced: Replica[] = []): void {
    const all = [
      ...desired.replicas,
      ...replaced,
      ...(live === desired ? [] : (live?.replicas ?? [])),
      ...retiring.keys(),
    ];
    const instances = all.map((replica) => replica.record()).filter((one) => one !== undefined);
    const { serviceId } = record;
    const now = { serviceId, label, desired: desired.record, live: live?.record, instances, usage, removed };
    const text = JSON.stringify(now);
    if (text !== saved) writeServiceRecord(context.folder, now, context.sealer);
    saved = text;
    clearTimeout(later);
    later = undefined;
  }

  function tell(): void {
    const now = status();
    clearTimeout(deadline);
    const left = desired.record.appliedAt + times.rolloutDeadlineMs - Date.now();
    if (desired.record.availableAt === undefined && left > 0) deadline = setTimeout(tell, left + 1).unref();
    if (isDeepStrictEqual(now, lastStatus)) return;
    lastStatus = now;
    context.emit(now);
  }

  function status(): RuntimeStatus {
    const { type, replicas, size, rolls } = desired.record.release;
    const seen = {
      serviceId: record.serviceId,
      url: type === "web" ? router.urlOf(label) : undefined,
      stopping,
      desired: toObservation(desired),
      live: live && toObservation(live),
    };
    const status = describeStatus(seen, times, Date.now());
    return { ...status, usage, scale: { replicas, size }, ...(rolls && { rolls }) };
  }

  /** Rolls over to the release, or only scales when nothing of its processes changes. */
  function apply(release: Release, newLabel: string): void {
    const current = desired.record.release;
    if (isDeepStrictEqual(current, release) && label === newLabel) return;
    refuseOlder(current, release);
    const before = { label, desired };
    label = newLabel;
    if (!needsProcesses(current, release)) {
      desired.record.release = release;
      scale(desired);
    } else {
      const generation = desired.record.generation + 1;
      desired = { record: { generation, release, appliedAt: Date.now(), restarts: 0 }, replicas: [] };
      const replaced = live === before.desired ? [] : before.desired.replicas;
      try {
        save(undefined, replaced); // what is started next must belong to something after a hard kill
      } catch (error) {
        ({ label, desired } = before); // there is no room: nothing has been applied
        throw error;
      }
      for (const replica of replaced) retire(replica);
      scale(desired);
    }
    if (label !== before.label) router.forget(before.label);
    changed();
  }

  return {
    logs,
    status,
    label: () => label,
    names: () => desired.record.release.names,
    apply,

    /** New processes for the same release. */
    roll(version: number, rolls: number): void {
      const { release } = desired.record;
      if (release.version !== version || (release.rolls ?? 0) >= rolls || stopping) return;
      apply({ ...release, rolls }, label);
    },

    /** Other replicas or another size for the same processes. */
    scale(version: number, wanted: Scale): void {
      if (desired.record.release.version !== version || stopping) return;
      desired.record.release = { ...desired.record.release, ...wanted };
      scale(desired);
      changed();
    },

    /** Ends every process; `forever` also forgets the service and its logs. */
    async stop(forever: boolean): Promise<void> {
      const first = !stopping;
      stopping = true;
      clearTimeout(deadline);
      clearTimeout(later);
      router.forget(label);
      if (first && forever) note(true);
      const grace = forever ? times.graceMs : times.stopGraceMs;
      const all = new Set([...desired.replicas, ...(live?.replicas ?? []), ...retiring.keys()]);
      await Promise.all([...all].map((replica) => replica.retire(grace)));
      await Promise.all([...retiring.values(), swept]);
      countUsage(Date.now());
      if (first && !forever) note();
      logs.close();
      if (forever) await rm(context.folder, { recursive: true, force: true });
    },
  };
}
