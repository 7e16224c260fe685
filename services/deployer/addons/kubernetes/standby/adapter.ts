import type { V1Pod, V1StatefulSet } from "@kubernetes/client-node";
import type { Kube } from "../../../kube/client.ts";
import * as kinds from "../../../kube/kinds.ts";
import { nameOf, namespaceOf } from "../../../kube/names.ts";
import type { Logger } from "../../../shared/logger.ts";
import type { Addon, AddonAddress, AddonOutcome } from "../../port.ts";
import { type Pair, podName } from "../server/manifests.ts";
import { addonOutcome, readiness } from "../server/pod-status.ts";
import { passwordMark, programs } from "../server/server-scripts.ts";
import {
  isLeaving,
  nextStep,
  otherThan,
  type Server,
  type Situation,
  type Step,
  serves,
} from "./next-step.ts";
import { pairOf, templateOf } from "./pair.ts";
import { follow, handOver, promote, readReplication } from "./replication.ts";
import { ensureReplicationSecret, ignoreConflict } from "./secret.ts";
import { findService, pointService } from "./service.ts";

type StandbysOptions = {
  kube: Kube;
  log: Logger;
  namespacePrefix: string;
  /** Applies the StatefulSet of an addon as it was read, with this pair in place of its own; with none, for a single server. */
  applyPair: (addon: Addon, password: string, before: V1StatefulSet, pair: Pair | undefined) => Promise<void>;
};

type Seen = Situation & { set: V1StatefulSet; secret: string };

/** More than any change takes. */
const MAX_STEPS = 10;
const TAKES_OVER = "The other server takes over.";
const NOT_REACHED =
  "The server runs, but Berth does not reach it, so its standby could not take over. Whoever runs the installation has to let the deployer connect to addons.";
const BOTH = [0, 1] as const;

/** Redis addons with a standby: which of both servers is the primary, and what restarts when. */
export function createStandbys({ kube, log, namespacePrefix, applyPair }: StandbysOptions) {
  const spaceOf = ({ environmentId }: Pick<Addon, "environmentId">) =>
    namespaceOf(namespacePrefix, environmentId);
  const removePod = ({ metadata }: V1Pod) =>
    kube
      .remove(kinds.Pod, metadata!.name!, metadata?.namespace, { preconditions: { uid: metadata?.uid } })
      .catch(ignoreConflict);

  /** Returns where a server is reached; undefined while its pod has no address. */
  function addressOf({ pod }: Server): AddonAddress | undefined {
    const host = pod?.status?.podIP;
    return host ? { host, port: programs.redis.port } : undefined;
  }

  /** What a server that serves does not say keeps Berth from having the other one take over. */
  const refusesToSay =
    ({ serviceId }: Addon, pod: V1Pod | undefined) =>
    (err: unknown) => {
      if (readiness(pod).ready)
        log.warn({ err, serviceId }, "a server of an addon does not say what it does");
      return undefined;
    };

  async function look(addon: Addon): Promise<Seen> {
    const namespace = spaceOf(addon);
    const secret = await ensureReplicationSecret(kube, addon, { namespacePrefix });
    const set = await kube.get(kinds.StatefulSet, nameOf(addon.serviceId), namespace);
    const pair = pairOf(set);
    if (!set || !pair) throw new Error("an addon was removed while it was changed");
    const [first, second] = await Promise.all(
      BOTH.map(async (ordinal): Promise<Server> => {
        const pod = await kube.get(kinds.Pod, podName(addon.serviceId, ordinal), namespace);
        const address = addressOf({ pod });
        const says = address && (await readReplication(address, secret).catch(refusesToSay(addon, pod)));
        return { pod, says };
      }),
    );
    return {
      ...pair,
      servers: [first!, second!],
      template: templateOf(set),
      single: (addon.replicas ?? 1) === 1,
      now: Date.now(),
      ...{ set, secret },
    };
  }

  /** Returns whether the next step can be looked for at once. */
  async function perform(addon: Addon, password: string, step: Step, seen: Seen): Promise<boolean> {
    const { primary, servers, set, secret } = seen;
    const { serviceId } = addon;
    const [own, other] = [servers[primary], servers[otherThan(primary)]].map(addressOf);
    switch (step.do) {
      case "nothing":
      case "wait":
        return false;
      case "restart":
        await removePod(step.pod);
        return true;
      case "appoint": {
        const pod = podName(serviceId, step.primary);
        log.info(
          { serviceId, pod, planned: serves(servers[primary]) },
          "another server of an addon takes over",
        );
        const replaced = servers[primary].pod?.metadata?.uid;
        await applyPair(addon, password, set, { primary: step.primary, replaced }).catch(ignoreConflict);
        return true;
      }
      case "hand-over":
        return handOver(other!, own!, secret);
      case "promote":
        await promote(own!, secret);
        return true;
      case "follow": {
        log.warn({ serviceId }, "a second server of an addon took itself for the primary");
        await follow(other!, secret, { host: addon.name, port: programs.redis.port });
        return false;
      }
      case "remove-standby":
        await applyPair(addon, password, set, undefined).catch(ignoreConflict);
        return false;
    }
  }

  return {
    /**
     * Brings both servers closer to what is desired, as far as that goes at once. Several processes may do it. Returns how far
     * the addon is, and which Secrets its servers have, of which one may still have a former password.
     */
    async settle(addon: Addon, password: string): Promise<{ outcome: AddonOutcome; secrets: string[] }> {
      for (let steps = 1; ; steps++) {
        const service = await findService(kube, addon, { namespacePrefix });
        const seen = await look(addon);
        const own = seen.servers[seen.primary];
        if (serves(own)) await pointService(kube, addon, { namespacePrefix }, service, seen.primary);
        const step = nextStep(seen);
        const goesOn = await perform(addon, password, step, seen).catch((err) => {
          log.warn({ err, serviceId: addon.serviceId, step: step.do }, "a step of an addon failed; retrying");
          return false;
        });
        if (goesOn && steps < MAX_STEPS && step.do !== "remove-standby") continue;
        const secrets = seen.servers.flatMap(({ pod }) => (pod && !isLeaving(pod) ? secretsOf(pod) : []));
        if (own.says?.role === "slave")
          return { outcome: { state: "waiting", message: TAKES_OVER }, secrets };
        if (!own.says && readiness(own.pod).ready)
          return { outcome: { state: "waiting", message: NOT_REACHED }, secrets };
        const want = { mark: passwordMark(password), size: addon.size };
        return { outcome: addonOutcome(own.pod, want, Date.now()), secrets };
      }
    },
  };
}

const secretsOf = ({ spec }: V1Pod) =>
  (spec?.volumes ?? []).flatMap(({ secret }) => secret?.secretName ?? []);
