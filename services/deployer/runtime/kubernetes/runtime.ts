import { setTimeout as delay } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import type { V1Deployment } from "@kubernetes/client-node";
import { every } from "../../../kit/every.ts";
import { isStatus } from "../../kube/client.ts";
import { Deployment } from "../../kube/kinds.ts";
import type { Runtime, RuntimeStatus } from "../port.ts";
import { createLogs } from "./logs/logs.ts";
import type { Environments } from "./namespace/namespaces.ts";
import { createCrashOutput } from "./observe/crash-output.ts";
import { contains, findDrift } from "./observe/drift.ts";
import { createCache } from "./observe/informer-cache.ts";
import { availableAt, describe, healthyAt, isAvailable, type Observation } from "./observe/status.ts";
import { usageNow } from "./observe/usage.ts";
import type { KubernetesRuntimeOptions } from "./options.ts";
import { createReleaseApplier } from "./release/apply-release.ts";
import { createHostClaims } from "./release/host-claims.ts";
import { imageOf } from "./release/manifests.ts";
import { type ReleaseState, readState, serviceIdOf, withAnnotations } from "./release/release-annotations.ts";

export type KubernetesRuntime = Runtime & {
  /** Resolves once what runs is known. To be awaited before anything else. */
  start: () => Promise<void>;
  stop: () => Promise<void>;
};

/** Events of one service that come together are told together. */
const GATHER_MS = 25;
const WRITE_TRIES = 10;
const CONFIRM_MS = 2_000;
const ENVIRONMENTS_MS = 10 * 60_000;

/**
 * Releases as Deployments of a cluster. All that counts is in the cluster, so several processes may do this at
 * once, and one that is killed loses nothing.
 */
export function createKubernetesRuntime(
  options: KubernetesRuntimeOptions,
  environments: Environments,
): KubernetesRuntime {
  const { kube, log, apps } = options;
  const claims = createHostClaims(options);
  const deploy = createReleaseApplier(options, claims);
  const cache = createCache(options, environments, noticed);
  const lastWords = createCrashOutput(kube);
  const logs = createLogs(kube, cache.pods);
  const listeners = new Set<(status: RuntimeStatus) => void>();
  const told = new Map<string, RuntimeStatus>();
  const gathering = new Map<string, NodeJS.Timeout>();
  /** Services of which something was found missing or changed. */
  const drifted = new Set<string>();
  const altered = new Set<string>();
  const stopping = new AbortController();

  function noticed(serviceId: string): void {
    look(serviceId, GATHER_MS);
  }

  /** Tells the listeners of a service, a moment later. */
  function look(serviceId: string, inMs: number): void {
    if (gathering.has(serviceId) || stopping.signal.aborted) return;
    const timer = setTimeout(() => {
      gathering.delete(serviceId);
      void tell(serviceId).catch((err) => log.warn({ err, serviceId }, "a status could not be told"));
    }, inMs);
    gathering.set(serviceId, timer.unref());
  }

  async function tell(serviceId: string): Promise<void> {
    const seen = await watched(serviceId);
    if (!seen) {
      told.delete(serviceId);
      return;
    }
    const now = Date.now();
    const status = await compose((await keep(seen, now)) ?? seen, now);
    const next = msUntilAvailable(seen, now);
    if (next !== undefined) look(serviceId, next);
    if (stopping.signal.aborted || isDeepStrictEqual(status, told.get(serviceId))) return;
    told.set(serviceId, status);
    for (const listener of listeners) listener(status);
  }

  /** What the watches show. The one of pods may be behind: what is to be written down is read afresh. */
  async function watched(serviceId: string): Promise<Observation | undefined> {
    const seen = cache.cached(serviceId);
    return seen && unrecordedState(seen, Date.now()) ? cache.read(serviceId) : seen;
  }

  /** Writes down what was seen for the first time; undefined when the service changed since. */
  async function keep(seen: Observation, now: number): Promise<Observation | undefined> {
    const { deployment } = seen;
    const better = unrecordedState(seen, now);
    if (!better) return seen;
    const written = await kube.apply(Deployment, withAnnotations(deployment, better)).catch((error) => {
      if (isStatus(error, 404, 409)) return undefined;
      throw error;
    });
    return written && { ...seen, deployment: written, recorded: better };
  }

  async function compose(seen: Observation, now: number): Promise<RuntimeStatus> {
    const { lastWords: crashed, message, ...status } = describe(seen, now, urlOf(seen));
    const words = crashed && (await lastWords(seen, crashed));
    const sentence = [message, words].filter(Boolean).join(" ");
    return {
      ...status,
      ...(sentence && { message: sentence }),
      ...(drifted.has(status.serviceId) && { drifted: true }),
    };
  }

  function urlOf({ recorded }: Observation): string | undefined {
    const host = recorded.manifests.ingress?.spec.rules?.[0]?.host;
    return host && `${apps.scheme}://${host}${apps.port === undefined ? "" : `:${apps.port}`}`;
  }

  async function status(serviceId: string): Promise<RuntimeStatus | undefined> {
    for (let attempt = 0; ; attempt++) {
      const seen = await cache.read(serviceId);
      if (!seen) return undefined;
      const now = Date.now();
      const kept = await keep(seen, now);
      if (kept || attempt >= WRITE_TRIES) return compose(kept ?? seen, now);
    }
  }

  /** Of a Deployment that was made and never filled: nothing runs, and it is there. */
  const unfilled = (deployment: V1Deployment): RuntimeStatus => ({
    serviceId: serviceIdOf(deployment),
    version: 0,
    revision: 0,
    state: "stopped",
    restarts: 0,
  });

  /** Finds what was removed or changed behind Berth's back. */
  async function compareAll(): Promise<void> {
    for (const namespace of environments.namespaces()) {
      const first = await findDrift(kube, namespace, cache.all(namespace));
      // An apply that is under way looks the same for a moment.
      if (first.size > 0) await delay(CONFIRM_MS, undefined, { signal: stopping.signal, ref: false });
      const suspects = cache.all(namespace).filter(({ recorded }) => first.has(recorded.release.serviceId));
      const found = await findDrift(kube, namespace, suspects);
      for (const { recorded } of cache.all(namespace)) {
        const { serviceId } = recorded.release;
        if (!found.has(serviceId) || altered.has(serviceId)) drifted.delete(serviceId);
        else if (!drifted.has(serviceId)) {
          drifted.add(serviceId);
          log.info({ serviceId, namespace }, "what was applied was changed by somebody; it is applied again");
          noticed(serviceId);
        }
      }
    }
  }

  /** What the cluster changes while it takes it will never be as it was sent. */
  function noteAltered(applied: V1Deployment): void {
    const recorded = readState(applied);
    const serviceId = serviceIdOf(applied);
    if (!recorded || contains(applied.spec, recorded.manifests.deployment)) altered.delete(serviceId);
    else altered.add(serviceId);
  }

  const periodic: ReturnType<typeof every>[] = [];
  function repeat(ms: number, task: () => Promise<void>): void {
    const failed = (err: unknown) =>
      log.warn({ err }, "the cluster could not be compared; it is tried again");
    periodic.push(every(ms, task, { atOnce: true, failed }));
  }

  return {
    async start() {
      await cache.start();
      repeat(options.compareMs, compareAll);
      repeat(ENVIRONMENTS_MS, environments.renew);
    },
    check: ({ artifact }) => void imageOf(artifact),
    async apply(release) {
      imageOf(release.artifact);
      const namespace = await environments.ensure(release);
      const applied = await deploy.apply(namespace, structuredClone(release)).catch((error) => {
        // The namespace may have been removed under it: it is made anew at the next try.
        if (isStatus(error, 403, 404)) environments.forget(namespace);
        throw error;
      });
      drifted.delete(release.serviceId);
      noteAltered(applied);
      cache.remember(applied);
      noticed(release.serviceId);
    },
    async remove(serviceId) {
      const place = cache.place(serviceId);
      if (place) await deploy.remove(place.namespace, serviceId);
      else await claims.release(serviceId);
    },
    status,
    async list() {
      const all = cache.deployments().map(async (deployment) => {
        const seen = await watched(serviceIdOf(deployment));
        if (!seen) return unfilled(deployment);
        const now = Date.now();
        return compose((await keep(seen, now)) ?? seen, now);
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
      const place = cache.place(serviceId);
      if (place) await deploy.scale(place, version, wanted);
    },
    async roll(serviceId, version, rolls) {
      const place = cache.place(serviceId);
      const rolled = place && (await deploy.roll(place, version, rolls));
      if (!rolled) return;
      cache.remember(rolled);
      noticed(serviceId);
    },
    environments: async () => environments.list(),
    removeEnvironment: environments.remove,
    async stop() {
      stopping.abort();
      for (const task of periodic) void task.stop();
      for (const timer of gathering.values()) clearTimeout(timer);
      await cache.stop();
    },
  };
}

/** The notes with what was seen for the first time; undefined when nothing was. */
function unrecordedState(seen: Observation, now: number): ReleaseState | undefined {
  const { recorded, deployment } = seen;
  if (deployment.metadata?.deletionTimestamp) return undefined;
  const healthy = healthyAt(seen, now);
  const usage = usageNow(seen, now);
  if (healthy === recorded.healthyAt && usage === recorded.usage) return undefined;
  return { ...recorded, usage, ...(healthy !== undefined && { healthyAt: healthy }) };
}

/** In how many ms the next replica that is ready counts as available. */
function msUntilAvailable({ recorded, pods }: Observation, now: number): number | undefined {
  const times = pods
    .filter((pod) => pod.readyAt !== undefined && !isAvailable(pod, recorded, now))
    .map((pod) => (availableAt(pod, recorded) ?? now) - now + GATHER_MS);
  return times.length > 0 ? Math.max(GATHER_MS, Math.min(...times)) : undefined;
}
