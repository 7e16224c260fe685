import { isStatus } from "../../../../kube/client.ts";
import { Deployment } from "../../../../kube/kinds.ts";
import type { RuntimeStatus } from "../../../port.ts";
import type { KubernetesRuntimeOptions } from "../../options.ts";
import { hostOf } from "../../release/doors.ts";
import { withAnnotations } from "../../release/release-annotations.ts";
import type { Cache } from "../informer-cache.ts";
import { createCrashOutput } from "./crash-output.ts";
import { describeStatus, msUntilChange, type Observation } from "./status.ts";
import { unrecordedState } from "./unrecorded-state.ts";

const MAX_ATTEMPTS = 10;

/** Reads the status of services, and records in their Deployments what it sees for the first time. */
export function createStatusReader(
  { kube, apps }: KubernetesRuntimeOptions,
  cache: Cache,
  hasDrifted: (serviceId: string) => boolean,
) {
  const crashOutput = createCrashOutput(kube);

  /** Returns what the watches show. The one of pods may be behind: what has to be recorded is read afresh. */
  async function observe(serviceId: string): Promise<Observation | undefined> {
    const seen = cache.cached(serviceId);
    return seen && unrecordedState(seen, Date.now()) ? cache.read(serviceId) : seen;
  }

  /** Records what was seen for the first time; undefined when the service has changed since. */
  async function persist(seen: Observation, now: number): Promise<Observation | undefined> {
    const recorded = unrecordedState(seen, now);
    if (!recorded) return seen;
    const deployment = await kube
      .apply(Deployment, withAnnotations(seen.deployment, recorded))
      .catch((error) => {
        if (isStatus(error, 404, 409)) return undefined;
        throw error;
      });
    return deployment && { ...seen, deployment, recorded };
  }

  async function toStatus(seen: Observation, now: number): Promise<RuntimeStatus> {
    const { crashed, message, ...status } = describeStatus(seen, now, urlOf(seen));
    const output = crashed && (await crashOutput(seen, crashed));
    const sentences = [message, output].filter(Boolean).join(" ");
    return {
      ...status,
      ...(sentences && { message: sentences }),
      ...(seen.recorded.hosts && { hosts: seen.recorded.hosts }),
      ...(hasDrifted(status.serviceId) && { drifted: true }),
    };
  }

  function urlOf({ recorded }: Observation): string | undefined {
    const host = hostOf(recorded.manifests);
    return host && `${apps.scheme}://${host}${apps.port === undefined ? "" : `:${apps.port}`}`;
  }

  return {
    /** Returns the status by the watches, and in how many ms time alone may change it; undefined without a release. */
    async cached(serviceId: string): Promise<{ status: RuntimeStatus; changesIn?: number } | undefined> {
      const seen = await observe(serviceId);
      if (!seen) return undefined;
      const now = Date.now();
      const status = await toStatus((await persist(seen, now)) ?? seen, now);
      return { status, changesIn: msUntilChange(seen, now) };
    },

    /** Returns the status as the cluster knows it now; undefined without a release. */
    async read(serviceId: string): Promise<RuntimeStatus | undefined> {
      for (let attempt = 0; ; attempt++) {
        const seen = await cache.read(serviceId);
        if (!seen) return undefined;
        const now = Date.now();
        const persisted = await persist(seen, now);
        if (persisted || attempt >= MAX_ATTEMPTS) return toStatus(persisted ?? seen, now);
      }
    },
  };
}
