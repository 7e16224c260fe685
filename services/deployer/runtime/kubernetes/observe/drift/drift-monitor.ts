import { setTimeout as delay } from "node:timers/promises";
import type { V1Deployment } from "@kubernetes/client-node";
import { createYielder } from "../../../../shared/yielder.ts";
import type { Environments } from "../../namespace/namespaces.ts";
import type { KubernetesRuntimeOptions } from "../../options.ts";
import { hasOtherDoors } from "../../release/doors.ts";
import { readState, serviceIdOf } from "../../release/release-annotations.ts";
import type { Cache } from "../informer-cache.ts";
import type { Observation } from "../status/status.ts";
import { createCompanionReader } from "./companions.ts";
import { contains, findDrift } from "./drift.ts";

/** An apply that is under way looks like drift for a moment. */
const CONFIRM_MS = 2_000;
/** In how many namespaces each comparison reads the Secrets, in turn, where these can only be listed. */
const SECRETS_AT_ONCE = 50;

/** Knows the services of which something was changed or removed since it was applied. */
export function createDriftMonitor(
  options: KubernetesRuntimeOptions,
  environments: Environments,
  cache: Cache,
  changed: (serviceId: string) => void,
) {
  const { log } = options;
  const companions = createCompanionReader(options);
  const drifted = new Set<string>();
  let turn = 0;
  /** Those that the cluster alters while it takes them (admission webhooks): they never equal what was sent. */
  const altered = new Set<string>();

  return {
    has: (serviceId: string) => drifted.has(serviceId),

    /** Records that a Deployment was just applied. */
    applied(deployment: V1Deployment): void {
      const recorded = readState(deployment);
      const serviceId = serviceIdOf(deployment);
      drifted.delete(serviceId);
      if (!recorded || contains(deployment.spec, recorded.manifests.deployment)) altered.delete(serviceId);
      else altered.add(serviceId);
    },

    start: companions.start,
    stop: companions.stop,

    /** Compares all services with what was applied, and calls `changed` for those that drifted since the last time. */
    async compare(signal: AbortSignal): Promise<void> {
      const namespaces = environments.namespaces();
      const inTurn = companions.lists ? new Set(namespaces) : nextTurn(namespaces);
      const yieldNow = createYielder();
      for (const namespace of namespaces) {
        await yieldNow();
        await compareIn(namespace, inTurn.has(namespace), signal).catch(
          (err) => signal.aborted || log.warn({ err, namespace }, "could not compare a namespace; retrying"),
        );
      }
    },
  };

  /** Returns the namespaces whose Secrets are read this time. */
  function nextTurn(namespaces: string[]): Set<string> {
    const from = turn < namespaces.length ? turn : 0;
    turn = from + SECRETS_AT_ONCE;
    return new Set(namespaces.slice(from, turn));
  }

  async function compareIn(namespace: string, withSecrets: boolean, signal: AbortSignal): Promise<void> {
    const services = cache.listIn(namespace);
    if (services.length === 0) return;
    const seen = await companions.read(namespace, wantedFor(services, withSecrets));
    if (!seen) return;
    const suspects = findDrift(seen, services, options);
    // Only these: each namespace with others would take a pause in every comparison.
    const fresh = new Set([...suspects].filter((id) => !altered.has(id) && !drifted.has(id)));
    const found = fresh.size > 0 ? await confirm(namespace, fresh, withSecrets, signal) : fresh;
    for (const { recorded } of services) {
      const { serviceId } = recorded.release;
      const isMoved = hasOtherDoors(recorded.manifests, options);
      const isKnown = suspects.has(serviceId) && drifted.has(serviceId);
      const isChanged = (found.has(serviceId) || isKnown) && !altered.has(serviceId);
      if (!isMoved && !isChanged) {
        if (withSecrets) drifted.delete(serviceId);
      } else if (!drifted.has(serviceId)) {
        drifted.add(serviceId);
        const why = isMoved ? "is to be reached in another way" : "has been changed";
        log.info({ serviceId, namespace }, `what was applied ${why}; it is being applied again`);
        changed(serviceId);
      }
    }
  }

  /** Returns which of these services differ still after a moment. */
  async function confirm(
    namespace: string,
    suspects: Set<string>,
    withSecrets: boolean,
    signal: AbortSignal,
  ): Promise<Set<string>> {
    await delay(CONFIRM_MS, undefined, { signal, ref: false });
    const services = cache
      .listIn(namespace)
      .filter(({ recorded }) => suspects.has(recorded.release.serviceId));
    const seen = await companions.read(namespace, wantedFor(services, withSecrets));
    return seen ? findDrift(seen, services, options) : new Set();
  }
}

function wantedFor(services: Observation[], secrets: boolean) {
  return { secrets, autoscalers: services.some(({ recorded }) => recorded.manifests.autoscaler) };
}
