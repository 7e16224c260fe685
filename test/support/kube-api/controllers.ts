import { setTimeout as delay } from "node:timers/promises";
import type { V1PodTemplateSpec } from "@kubernetes/client-node";
import { Deployment, Pod } from "../../../services/deployer/kube/kinds.ts";
import { annotation, label } from "../../../services/deployer/kube/names.ts";
import { selectorOf } from "../../../services/deployer/runtime/kubernetes/app-pods.ts";
import { serviceIdOf } from "../../../services/deployer/runtime/kubernetes/release/release-annotations.ts";
import { asServed, deploymentStatus, type PodPhase, podStatus } from "./served.ts";
import type { KubeApi } from "./server.ts";
import type { Given, Stored } from "./store.ts";

/** How many pods a node has. */
export const PODS_PER_NODE = 200;
/** How long a node takes to start a container, an app to become ready, and a pod to end. */
const START_MS = 1_000;
const READY_MS = 1_000;
const END_MS = 1_000;
/** Until somebody removes the node, in a real cluster. */
const LOST_MS = 8_000;
/** After five minutes in a real cluster. */
const EVICTION_MS = 1_000;
/** What an app writes before its end. */
const LOG_LINES = 50;

type Members = Record<string, unknown>;

/**
 * Does what the controllers and nodes of a cluster do: replaces the pods of a Deployment whose template changes, one that
 * is ready at a time, restarts what ends, and starts elsewhere what ran on a node that is lost. Each step is an event
 * of its own, as in a cluster.
 */
export function runControllers({ store, podLogs }: KubeApi) {
  let nodes = 1;
  let placed = 0;
  let moving = 0;
  const rolling = new Set<string>();

  const scopeOf = ({ metadata: { namespace } }: Stored) => ({ ...Pod, namespace });
  const place = () => `node-${placed++ % nodes}`;

  function onNode(pod: Given): Given {
    return { ...pod, spec: { ...(pod.spec as Members), nodeName: place() } };
  }

  function set(pod: Stored, phase: PodPhase, more: Members = {}): Stored {
    const metadata = { ...pod.metadata, ...more };
    return store.put(scopeOf(pod), asServed({ ...pod, metadata, status: podStatus(pod, phase) } as Given));
  }

  const end = (pod: Stored) =>
    set(pod, "unready", {
      deletionTimestamp: new Date(Date.now() + END_MS).toISOString(),
      deletionGracePeriodSeconds: END_MS / 1_000,
    });

  /** Starts the pod that was put, and resolves once it is ready. */
  async function run(pod: Stored): Promise<Stored> {
    await delay(START_MS);
    const running = set(pod, "running");
    await delay(READY_MS);
    return set(running, "ready");
  }

  async function remove(pod: Stored, afterMs = END_MS): Promise<void> {
    await delay(afterMs);
    store.remove(scopeOf(pod), pod.metadata.name);
  }

  async function counted<T>(work: () => Promise<T>): Promise<T> {
    moving++;
    try {
      return await work();
    } finally {
      moving--;
    }
  }

  const podsOf = (deployment: Stored) =>
    store
      .list({ ...Pod, namespace: deployment.metadata.namespace }, selectorOf(serviceIdOf(deployment)))
      .map(([, pod]) => pod);

  /** Reports how many replicas of the current template there are, and how many serve. */
  function report(namespace: string, name: string, counts: { updated: number; available: number }): void {
    const live = store.find({ ...Deployment, namespace }, name);
    if (live) store.merge({ ...Deployment, namespace }, name, { status: deploymentStatus(live, counts) });
  }

  function newPod(deployment: Stored): Stored {
    const { namespace = "", name } = deployment.metadata;
    const { metadata = {}, spec } = (deployment.spec as { template: V1PodTemplateSpec }).template;
    const hash = String(metadata.annotations?.[annotation("template")]);
    const pod = {
      ...{ apiVersion: "v1", kind: "Pod" },
      metadata: { ...metadata, name: `${name}-${hash.slice(0, 10)}-${placed}` },
      spec: spec as unknown,
    };
    const stored = onNode(pod as Given);
    return store.put({ ...Pod, namespace }, asServed({ ...stored, status: podStatus(stored, "pending") }));
  }

  async function roll(deployment: Stored): Promise<void> {
    const { namespace = "", name } = deployment.metadata;
    const before = podsOf(deployment);
    report(namespace, name, { updated: 0, available: before.length });
    const pod = newPod(deployment);
    report(namespace, name, { updated: 1, available: before.length });
    await run(pod);
    const { minReadySeconds = 0 } = deployment.spec as { minReadySeconds?: number };
    await delay(minReadySeconds * 1_000);
    report(namespace, name, { updated: 1, available: before.length + 1 });
    await Promise.all(before.map((one) => remove(end(one))));
    report(namespace, name, { updated: 1, available: 1 });
  }

  /** Rolls a Deployment whose pods have another template, and again when it changed meanwhile. */
  function onDeployment(deployment: Stored): void {
    const { namespace = "", name, uid } = deployment.metadata;
    const hashOf = (metadata: object | undefined) =>
      (
        (metadata as { annotations?: unknown } | undefined)?.annotations as Record<string, string> | undefined
      )?.[annotation("template")];
    const hash = hashOf((deployment.spec as { template: V1PodTemplateSpec }).template.metadata);
    if (!hash || rolling.has(uid)) return;
    if (podsOf(deployment).some((pod) => hashOf(pod.metadata) === hash)) return;
    rolling.add(uid);
    void counted(() => roll(deployment)).finally(() => {
      rolling.delete(uid);
      const live = store.find({ ...Deployment, namespace }, name);
      if (live) onDeployment(live);
    });
  }

  const deploymentOf = ({ metadata: { namespace = "", labels } }: Stored) =>
    store.list(
      { ...Deployment, namespace },
      { [label("service")]: labels?.[label("service")] ?? "" },
    )[0]?.[1];
  const isAddon = ({ metadata: { labels } }: Stored) => labels?.[label("kind")] === "addon";

  /** A replica is away while `work` goes on. */
  async function without(pod: Stored, work: () => Promise<unknown>): Promise<void> {
    const deployment = isAddon(pod) ? undefined : deploymentOf(pod);
    const { namespace = "", name = "" } = deployment?.metadata ?? {};
    report(namespace, name, { updated: 1, available: 0 });
    await work();
    report(namespace, name, { updated: 1, available: 1 });
  }

  async function crash(pod: Stored): Promise<void> {
    const line = (_: unknown, at: number) => `${new Date().toISOString()} line ${at} of what it was doing`;
    const lines = Array.from({ length: LOG_LINES }, line);
    podLogs.set(pod.metadata.name, lines).set(`${pod.metadata.name} before`, lines);
    await without(pod, () => run(set(pod, "ended")));
  }

  async function replace(pod: Stored): Promise<void> {
    const deployment = deploymentOf(pod);
    if (deployment && !isAddon(pod)) {
      const ended = end(pod);
      void counted(() => remove(ended, LOST_MS));
      await run(newPod(deployment));
      return;
    }
    await remove(end(pod));
    const { uid: _, creationTimestamp: __, ...metadata } = pod.metadata;
    const again = onNode({ ...pod, metadata: { ...metadata } } as unknown as Given);
    await run(store.put(scopeOf(pod), asServed({ ...again, status: podStatus(again, "pending") })));
  }

  const allPods = () => store.list(Pod, {}).map(([, pod]) => pod);

  return {
    /** Says how many nodes there are; pods that were put are spread over them. */
    setNodes(count: number): void {
      nodes = count;
    },

    /** Puts a pod on a node. */
    placed: (object: Given): Given => (object.kind === "Pod" ? onNode(object) : object),

    /** Begins to act on what changes from now on. */
    start(): void {
      store.onChange(({ type, scope, object }) => {
        if (scope.plural === "deployments" && type !== "DELETED") setImmediate(() => onDeployment(object));
      });
    },

    /** Returns how many pods come or go. */
    moving: () => moving,

    /** Has the containers of so many apps end, one every `everyMs`; resolves when all are ready again. */
    async restart(count: number, everyMs: number): Promise<number> {
      const apps = allPods().filter((pod) => !isAddon(pod));
      const step = Math.floor(apps.length / count);
      const chosen = apps.filter((_, at) => at % step === 0).slice(0, count);
      await Promise.all(
        chosen.map((pod, at) =>
          counted(async () => {
            await delay(at * everyMs);
            await crash(pod);
          }),
        ),
      );
      return chosen.length;
    },

    /** Has one node vanish; resolves when all its pods are ready on others. */
    async loseNode(): Promise<number> {
      const lost = allPods().filter(({ spec }) => (spec as { nodeName?: string }).nodeName === "node-0");
      await Promise.all(
        lost.map((pod) =>
          counted(() =>
            without(pod, async () => {
              const unready = set(pod, "unready");
              await delay(EVICTION_MS);
              await replace(unready);
            }),
          ),
        ),
      );
      return lost.length;
    },
  };
}
