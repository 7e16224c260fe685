import { setTimeout as delay } from "node:timers/promises";
import type { KubernetesObject, V1Pod } from "@kubernetes/client-node";
import type { Kube } from "../../kube/client.ts";
import * as kinds from "../../kube/kinds.ts";
import { label, selector } from "../../kube/names.ts";
import { createPodUsage, type PodUsage } from "../../kube/pods/pod-usage.ts";
import { startWatches, type Watches, type WatchOptions, type WatchScope } from "../../kube/watch/watches.ts";
import { podFacts } from "../../runtime/kubernetes/observe/status/pod-facts.ts";
import type { Logger } from "../../shared/logger.ts";
import type { Measurement } from "../../terms/measurement.ts";
import type { AddonStatus } from "../port.ts";
import { readiness } from "./server/pod-status.ts";

type Options = {
  kube: Kube;
  log: Logger;
  watch: WatchScope;
  hasNamespace: (namespace: string) => boolean;
  checkMs?: number;
};

/** What an addon runs as on one engine. */
type Engine<Server extends KubernetesObject> = {
  watch: (options: WatchOptions<Server>) => Watches<Server>;
  /** Whether watching begins with the first list, also while there is no addon: not of a kind that the API may lack. */
  eager: boolean;
  /** The label `kind` of its pods. */
  pods: string;
  /** Returns the pods of a server among those of its namespace, which are by name. */
  podsOf: (server: Server, all: ReadonlyMap<string, V1Pod>) => V1Pod[];
  /** Returns undefined for an object that is no addon's. */
  statusOf: (server: Server, pods: V1Pod[], now: number) => AddonStatus | undefined;
  /** What is looked at besides, as often as the objects that are not watched. */
  check?: (query: { namespace: string; labels: string }, servers: Server[]) => Promise<void>;
};

type NamespaceWatch = {
  startedAt: number;
  /** When the objects that are not watched were last listed, and the services that lacked one of them. */
  checkedAt: number;
  incomplete: ReadonlySet<string>;
};

const ADDONS = selector({ [label("kind")]: "addon" });
const SYNC_MS = 10_000;
const CHECK_MS = 300_000;
/** How many namespaces are checked with each list: what was begun together is due together. */
const CHECKS_AT_ONCE = 50;
/** How long an empty namespace is watched: an addon may be about to appear in it. */
const EMPTY_MS = 60_000;
const INCOMPLETE = "Something that belongs to the addon is missing in the cluster and is being restored.";

/**
 * Knows the addons of each namespace that was asked about. Servers and pods are watched; the metadata of Services, policies
 * and Secrets is listed every five minutes, which needs fewer rights and watches.
 */
export function createNamespaceWatches<Server extends KubernetesObject>(
  { kube, log, watch: scope, hasNamespace, checkMs = CHECK_MS }: Options,
  engine: Engine<Server>,
  changed: (serviceId: string) => void,
) {
  const watches = new Map<string, NamespaceWatch>();
  const readUsage = createPodUsage({ kube, log, watch: scope }, engine.pods);
  let started: { servers: Watches<Server>; pods: Watches<V1Pod> } | undefined;

  /** Begins to watch when it is called for the first time. */
  function watched() {
    const onChange = ({ metadata }: KubernetesObject) => {
      const serviceId = metadata?.labels?.[label("serviceId")];
      if (serviceId) changed(serviceId);
    };
    const options = { scope, changed: onChange, log };
    started ??= {
      servers: engine.watch({ ...options, labels: ADDONS }),
      pods: startWatches(kube, kinds.Pod, { ...options, labels: selector({ [label("kind")]: engine.pods }) }),
    };
    return started;
  }

  function watchNamespace(namespace: string): NamespaceWatch {
    const existing = watches.get(namespace);
    if (existing) return existing;
    const { servers, pods } = watched();
    servers.add(namespace);
    pods.add(namespace);
    const watch: NamespaceWatch = { startedAt: Date.now(), checkedAt: Date.now(), incomplete: new Set() };
    watches.set(namespace, watch);
    return watch;
  }

  /** Returns the servers of a namespace, each with its pods. */
  function serversIn(namespace: string): { server: Server; pods: V1Pod[] }[] {
    const { servers, pods } = watched();
    const all = pods.in(namespace);
    return [...servers.in(namespace).values()].map((server) => ({
      server,
      pods: engine.podsOf(server, all),
    }));
  }

  function statusesOf(namespace: string): AddonStatus[] {
    const incomplete = watches.get(namespace)?.incomplete;
    return serversIn(namespace).flatMap(({ server, pods }) => {
      const status = engine.statusOf(server, pods, Date.now());
      if (!status || !incomplete?.has(status.serviceId)) return status ?? [];
      return { ...status, running: false, problem: { state: "degraded" as const, message: INCOMPLETE } };
    });
  }

  async function check(namespace: string, watch: NamespaceWatch): Promise<void> {
    const query = { namespace, labels: ADDONS };
    const lists = await Promise.all([
      kube.listMetadata(kinds.Service, query),
      kube.listMetadata(kinds.NetworkPolicy, query),
      kube.listMetadata(kinds.Secret, query),
    ]);
    const owners = lists.map((objects) => new Set(objects.map(({ labels }) => labels?.[label("serviceId")])));
    const serviceIds = statusesOf(namespace).map(({ serviceId }) => serviceId);
    // It may no longer be watched by now: it is not put back.
    watch.incomplete = new Set(serviceIds.filter((id) => owners.some((ids) => !ids.has(id))));
    watch.checkedAt = Date.now();
    const servers = serversIn(namespace).map(({ server }) => server);
    await engine.check?.(query, servers);
  }

  return {
    /** Returns the addons of a namespace, and watches it from now on. Throws when the API does not answer in 10 s. */
    async listIn(namespace: string): Promise<AddonStatus[]> {
      if (!hasNamespace(namespace)) return [];
      watchNamespace(namespace);
      const { servers, pods } = watched();
      const late = delay(SYNC_MS, true, { ref: false });
      const synced = Promise.all([servers.synced(namespace), pods.synced(namespace)]).then(() => false);
      if (await Promise.race([synced, late])) throw new Error("the cluster's API does not answer");
      return statusesOf(namespace);
    },
    /** Returns the addons of all namespaces that are watched. Stops watching empty and removed ones, lists what is due. */
    async list(): Promise<AddonStatus[]> {
      if (engine.eager) watched();
      for (const [namespace, watch] of [...watches]) {
        const { servers, pods } = watched();
        const empty = servers.in(namespace).size + pods.in(namespace).size === 0;
        if (!hasNamespace(namespace) || (empty && Date.now() - watch.startedAt > EMPTY_MS)) {
          watches.delete(namespace);
          servers.remove(namespace);
          pods.remove(namespace);
        }
      }
      const due = [...watches]
        .filter(([, { checkedAt }]) => Date.now() - checkedAt > checkMs)
        .sort(([, one], [, other]) => one.checkedAt - other.checkedAt);
      for (const [namespace, watch] of due.slice(0, CHECKS_AT_ONCE))
        await check(namespace, watch).catch((error) =>
          log.warn({ err: error, namespace }, "could not look at the objects of addons; retrying"),
        );
      return [...watches.keys()].flatMap(statusesOf);
    },
    /** Returns what the addons of all namespaces that are watched use. */
    async measure(): Promise<Measurement[]> {
      const namespaces = [...watches.keys()].filter((namespace) => serversIn(namespace).length > 0);
      const used = namespaces.length > 0 ? await readUsage(namespaces) : undefined;
      return namespaces.flatMap(serversIn).flatMap(({ server, pods }) => {
        const serviceId = server.metadata?.labels?.[label("serviceId")];
        return serviceId === undefined ? [] : toMeasurement(serviceId, pods, used?.get(serviceId));
      });
    },
    /** Returns the servers of all namespaces that are watched. */
    servers: () => [...watches.keys()].flatMap(serversIn),
    /** Returns the namespace of a server's object. */
    namespaceOf: (name: string) =>
      [...watches.keys()].find((namespace) => watched().servers.in(namespace).has(name)),
    /** Records that all objects of an addon have just been applied. */
    markComplete(namespace: string, serviceId: string): void {
      const watch = watchNamespace(namespace);
      watch.incomplete = new Set([...watch.incomplete].filter((id) => id !== serviceId));
    },
    async stop(): Promise<void> {
      await Promise.all([started?.servers.stop(), started?.pods.stop()]);
      watches.clear();
    },
  };
}

function toMeasurement(serviceId: string, pods: V1Pod[], used: PodUsage | undefined): Measurement {
  const counters = pods.map(podFacts).map(({ uid, createdAt, restarts }) => ({
    ...{ source: uid, since: createdAt, restarts },
  }));
  return { serviceId, replicas: pods.filter((pod) => readiness(pod).ready).length, ...used, counters };
}
