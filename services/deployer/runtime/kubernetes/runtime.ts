import { isDeepStrictEqual } from "node:util";
import type { V1Deployment } from "@kubernetes/client-node";
import { createSemaphore } from "../../../kit/concurrency/semaphore.ts";
import type { Loop } from "../../../kit/tasks/loop.ts";
import { startTask } from "../../../kit/tasks/task.ts";
import { isStatus } from "../../kube/client.ts";
import { createYielder } from "../../shared/yielder.ts";
import { COMPARE, FOLLOW_PLANS } from "../../tasks.ts";
import type { Runtime, RuntimeStatus } from "../port.ts";
import { appSource } from "./logs/log-source.ts";
import { createLogs } from "./logs/logs.ts";
import { createMeasuring, unmeasuredOn } from "./metrics/measure.ts";
import { createPrometheus } from "./metrics/prometheus.ts";
import type { Environments } from "./namespace/namespaces.ts";
import { TURNS } from "./namespace/needs-apply.ts";
import { createDriftMonitor } from "./observe/drift/drift-monitor.ts";
import { createCache } from "./observe/informer-cache.ts";
import { createStatusReader } from "./observe/status/status-reader.ts";
import type { KubernetesRuntimeOptions } from "./options.ts";
import { createReleaseApplier } from "./release/apply-release.ts";
import { createHostClaims } from "./release/host-claims.ts";
import { imageOf } from "./release/manifests.ts";
import { serviceIdOf } from "./release/release-annotations.ts";
import { createJobRuns } from "./runs/job-runs.ts";

export type KubernetesRuntime = Runtime & {
  /**
   * Begins to watch what runs, and resolves once that is known: to be awaited before anything but logs, which need no
   * watches.
   */
  start: () => Promise<void>;
  stop: () => Promise<void>;
};

/** Changes of one service within this time are reported together. */
const GATHER_MS = 25;
/** A status is read from ten times as much data: with all at once, many services would need much memory. */
const STATUSES_AT_ONCE = 20;

/**
 * Runs releases as Deployments of a cluster, which holds all state: several processes may do this at once, and one that
 * is killed loses nothing. One that was stopped is not started again.
 */
export function createKubernetesRuntime(
  options: KubernetesRuntimeOptions,
  environments: Environments,
): KubernetesRuntime {
  const { log } = options;
  const claims = createHostClaims(options);
  const applier = createReleaseApplier(options, claims);
  const onChange = (serviceId: string) => scheduleReport(serviceId, GATHER_MS);
  const cache = createCache(options, environments, onChange);
  const drift = createDriftMonitor(options, environments, cache, onChange);
  const statuses = createStatusReader(options, cache, drift.has);
  const { prometheusUrl: url, namespacePrefix } = options;
  const logs = createLogs(options, (query) => appSource(namespacePrefix, query));
  const listeners = new Set<(status: RuntimeStatus) => void>();
  const reported = new Map<string, RuntimeStatus>();
  /** The last status that was asked for: whoever asked knows it without a report. */
  const asked = new Map<string, Promise<RuntimeStatus | undefined>>();
  const scheduled = new Map<string, { at: number; timer: NodeJS.Timeout }>();
  /** The services whose status may have changed since it was reported. */
  const stale = new Set<string>();
  /** The services that changed since the start. Earlier changes are found by comparing all at once. */
  const changedSinceStart = new Set<string>();
  let started = false;
  const inTurn = createSemaphore(STATUSES_AT_ONCE);
  const yieldNow = createYielder();
  let tasks: Loop[] = [];
  const stopping = new AbortController();

  function scheduleReport(serviceId: string, inMs: number): void {
    stale.add(serviceId);
    if (started) changedSinceStart.add(serviceId);
    const at = performance.now() + inMs;
    const before = scheduled.get(serviceId);
    // What happens now does not wait for what time alone may change.
    if ((before && before.at <= at) || stopping.signal.aborted) return;
    clearTimeout(before?.timer);
    const timer = setTimeout(() => {
      scheduled.delete(serviceId);
      void report(serviceId).catch((err) => log.warn({ err, serviceId }, "could not report a status"));
    }, inMs);
    scheduled.set(serviceId, { at, timer: timer.unref() });
  }

  /** Returns the last reported status where only a change in the cluster can alter it: all replicas run. */
  function settled(serviceId: string): RuntimeStatus | undefined {
    const status = reported.get(serviceId);
    if (status?.state !== "running" || stale.has(serviceId)) return undefined;
    return (status.drifted ?? false) === drift.has(serviceId) ? status : undefined;
  }

  function readInTurn(serviceId: string): ReturnType<typeof statuses.cached> {
    return inTurn(async () => {
      await yieldNow();
      return statuses.cached(serviceId);
    });
  }

  /** Passes the status of a service to the listeners if it differs from the one reported last. */
  async function report(serviceId: string): Promise<void> {
    const changed = changedSinceStart.delete(serviceId);
    const current = await readInTurn(serviceId);
    if (!scheduled.has(serviceId)) stale.delete(serviceId);
    if (!current) {
      reported.delete(serviceId);
      asked.delete(serviceId);
      return;
    }
    const { status, changesIn } = current;
    if (changesIn !== undefined) scheduleReport(serviceId, Math.max(GATHER_MS, changesIn + GATHER_MS));
    if (stopping.signal.aborted || isDeepStrictEqual(status, reported.get(serviceId))) return;
    reported.set(serviceId, status);
    if (!changed) return;
    const known = await asked.get(serviceId)?.catch(() => undefined);
    if (!isDeepStrictEqual(status, known)) for (const listener of listeners) listener(status);
  }

  /** Undefined at first: a start is busy enough without a turn. */
  let turn: number | undefined;
  async function followPlans(): Promise<void> {
    await environments.reapply(turn);
    turn = turn === undefined ? 0 : (turn + 1) % TURNS;
  }

  return {
    async start() {
      drift.start();
      await cache.start();
      started = true;
      const compare = { ...COMPARE, everyMs: options.compareMs };
      tasks = [startTask(compare, drift.compare, { log }), startTask(FOLLOW_PLANS, followPlans, { log })];
    },
    learnPlan: environments.learnPlan,
    check: ({ artifact }) => void imageOf(artifact),
    async apply(release) {
      imageOf(release.artifact);
      const namespace = await environments.ensure(release);
      const applied = await applier.apply(namespace, structuredClone(release)).catch((error) => {
        // The namespace may have been deleted meanwhile: the next attempt creates it.
        if (isStatus(error, 403, 404)) environments.invalidate(namespace);
        throw error;
      });
      drift.applied(applied);
      cache.setLocation(applied);
      onChange(release.serviceId);
    },
    async remove(serviceId) {
      const location = cache.locationOf(serviceId);
      if (location) await applier.remove(location.namespace, serviceId);
      else await claims.release(serviceId);
    },
    status(serviceId) {
      const status = statuses.read(serviceId);
      asked.set(serviceId, status);
      return status;
    },
    async list() {
      const all = cache.deployments().map(async (deployment) => {
        const serviceId = serviceIdOf(deployment);
        const current = settled(serviceId) ?? (await readInTurn(serviceId))?.status;
        return current ?? emptyStatus(deployment);
      });
      return Promise.all(all);
    },
    watch(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    logs: logs.page,
    followLogs: logs.follow,
    async scale(serviceId, version, wanted) {
      const location = cache.locationOf(serviceId);
      if (!location) return;
      await environments.follow(location.namespace);
      await applier.scale(location, version, wanted);
    },
    async roll(serviceId, version, rolls) {
      const location = cache.locationOf(serviceId);
      const rolled = location && (await applier.roll(location, version, rolls));
      if (!rolled) return;
      cache.setLocation(rolled);
      onChange(serviceId);
    },
    async setHosts(serviceId, hosts) {
      const location = cache.locationOf(serviceId);
      const set = location && (await applier.setHosts(location, hosts));
      if (!set) return undefined;
      cache.setLocation(set.deployment);
      onChange(serviceId);
      return set.statuses;
    },
    autoscales: true,
    measure: createMeasuring(options, environments, cache),
    unmeasured: unmeasuredOn(url !== undefined),
    ...(url !== undefined && { readSeries: createPrometheus({ url, namespacePrefix }).readSeries }),
    unread: cache.unread,
    environments: async () => environments.list(),
    removeEnvironment: environments.remove,
    runs: createJobRuns(options, environments),
    async stop() {
      stopping.abort();
      for (const task of tasks) void task.stop();
      for (const { timer } of scheduled.values()) clearTimeout(timer);
      await Promise.all([cache.stop(), drift.stop()]);
    },
  };
}

/** Returns the status of a service whose Deployment was created but never received a release. */
function emptyStatus(deployment: V1Deployment): RuntimeStatus {
  return { serviceId: serviceIdOf(deployment), version: 0, revision: 0, state: "stopped", restarts: 0 };
}
