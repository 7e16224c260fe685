import type { Given, Stored } from "./store.ts";

type Members = Record<string, unknown>;
type ContainerStatus = Members & { name: string; restartCount: number; state: Members };

/** Where the one container of a pod is. */
export type PodPhase = "pending" | "running" | "ready" | "unready" | "ended";

const isMembers = (value: unknown): value is Members =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Returns an object as large as an API server's: with its defaults, who set which field, and what nodes say of a pod. */
export function asServed(given: Given): Given {
  const object = withDefaults(given);
  const { metadata, status, ...rest } = object;
  const { managedFields: _, ...own } = metadata;
  const writer = object.kind === "Pod" ? "kube-controller-manager" : "berth";
  const observer = object.kind === "Pod" ? "kubelet" : "kube-controller-manager";
  const managedFields = [
    entry(writer, { metadata: { labels: own.labels, annotations: own.annotations }, ...rest }),
    ...(status ? [{ ...entry(observer, { status }), subresource: "status" }] : []),
  ];
  return { ...object, metadata: { ...own, managedFields } };
}

function entry(manager: string, fields: Members) {
  const [operation, time] = [manager === "berth" ? "Apply" : "Update", "2026-01-01T00:00:00Z"];
  return { manager, operation, apiVersion: "v1", time, fieldsType: "FieldsV1", fieldsV1: pathsOf(fields) };
}

/** Returns the names of all fields, nested as the API nests them. */
function pathsOf(fields: Members): Members {
  const paths = Object.entries(fields).filter(([, value]) => value !== undefined);
  return Object.fromEntries(
    paths.map(([name, value]) => {
      if (Array.isArray(value))
        return [
          `f:${name}`,
          Object.fromEntries(
            value.map((one, at) => [
              `k:{"name":"${at}"}`,
              { ".": {}, ...(isMembers(one) ? pathsOf(one) : {}) },
            ]),
          ),
        ];
      return [`f:${name}`, isMembers(value) ? pathsOf(value) : {}];
    }),
  );
}

function withDefaults(object: Given): Given {
  if (object.kind === "Deployment") {
    const status = object.status ?? deploymentStatus(object, { updated: 1, available: 1 });
    return { ...object, status };
  }
  if (object.kind !== "Pod") return object;
  const { name, labels } = object.metadata as { name: string; labels?: Members };
  const metadata = {
    ...object.metadata,
    generateName: `${name}-`,
    labels: { ...labels, "pod-template-hash": "6d5f8c9b7d" },
    ownerReferences: [
      {
        ...{ apiVersion: "apps/v1", kind: "ReplicaSet", name: `${name}-6d5f8c9b7d` },
        ...{ uid: "5f0e6d0c-8a51-4d54-9a55-0d4b6f6c2a11", controller: true, blockOwnerDeletion: true },
      },
    ],
  };
  return {
    ...object,
    metadata,
    spec: podSpec(object.spec as Members),
    status: withNode(object.status as Members),
  };
}

function podSpec(spec: Members): Members {
  const until = { effect: "NoExecute", operator: "Exists", tolerationSeconds: 300 };
  return {
    ...spec,
    ...{ dnsPolicy: "ClusterFirst", restartPolicy: "Always", schedulerName: "default-scheduler" },
    ...{ serviceAccount: "default", serviceAccountName: "default", priority: 0 },
    preemptionPolicy: "PreemptLowerPriority",
    tolerations: ["not-ready", "unreachable"].map((key) => ({ key: `node.kubernetes.io/${key}`, ...until })),
    containers: (spec.containers as Members[]).map((one) => ({
      ...{ imagePullPolicy: "IfNotPresent", terminationMessagePath: "/dev/termination-log" },
      ...{ terminationMessagePolicy: "File", ...one },
    })),
  };
}

/** Adds what a node reports besides what decides. */
function withNode(status: Members): Members {
  const [containers, conditions = []] = [status.containerStatuses, status.conditions] as Members[][];
  const lastTransitionTime = "2026-01-01T00:00:00Z";
  const others = ["PodReadyToStartContainers", "Initialized", "ContainersReady", "PodScheduled"];
  const address = "10.244.17.201";
  return {
    ...status,
    conditions: [
      ...conditions,
      ...others.map((type) => ({
        ...{ type, status: "True", lastProbeTime: null, lastTransitionTime, observedGeneration: 1 },
      })),
    ],
    containerStatuses: containers?.map((one) => ({
      ...one,
      image: "example.test/web:2",
      imageID: `example.test/web@sha256:${"0".repeat(64)}`,
      containerID: `containerd://${"0".repeat(64)}`,
    })),
    hostIP: "10.0.14.117",
    hostIPs: [{ ip: "10.0.14.117" }],
    podIP: address,
    podIPs: [{ ip: address }],
    qosClass: "Burstable",
    startTime: lastTransitionTime,
  };
}

/** The cluster's times are precise to the second. */
const now = () => `${new Date().toISOString().slice(0, 19)}Z`;

/** Returns the status of a pod whose container is in another phase from now on. */
export function podStatus({ spec, status }: Given | Stored, phase: PodPhase): Members {
  const { containers } = spec as { containers: { name: string }[] };
  const [before] = ((status as Members | undefined)?.containerStatuses ?? []) as ContainerStatus[];
  const none: Partial<ContainerStatus> = {};
  const { state = {}, restartCount = 0, lastState = {} } = (phase !== "pending" && before) || none;
  const hasEnded = "terminated" in state;
  const { startedAt = now() } = (state.running ?? {}) as { startedAt?: string };
  const states: Partial<Record<PodPhase, Members>> = {
    pending: { waiting: { reason: "ContainerCreating" } },
    running: { running: { startedAt: now() } },
    ended: { terminated: { exitCode: 1, reason: "Error", startedAt, finishedAt: now() } },
  };
  const ready = phase === "ready";
  return {
    phase: phase === "pending" ? "Pending" : "Running",
    conditions: [{ type: "Ready", status: ready ? "True" : "False", lastTransitionTime: now() }],
    containerStatuses: [
      {
        ...{ name: containers[0]!.name, ready, started: ready },
        restartCount: restartCount + (phase === "running" && hasEnded ? 1 : 0),
        state: states[phase] ?? state,
        lastState: phase === "running" && hasEnded ? state : lastState,
      },
    ],
  };
}

/** Returns the status of a Deployment of one replica, by how many pods have its current template, and how many serve. */
export function deploymentStatus(
  { metadata }: Given | Stored,
  { updated, available }: { updated: number; available: number },
): Members {
  const condition = (type: string, is: boolean, reason: string, message: string) => ({
    ...{ type, status: is ? "True" : "False", reason, message },
    ...{ lastTransitionTime: "2026-01-01T00:00:00Z", lastUpdateTime: now() },
  });
  return {
    observedGeneration: metadata.generation ?? 1,
    ...{ replicas: Math.max(1, available), updatedReplicas: updated },
    ...(available > 0
      ? { readyReplicas: available, availableReplicas: available }
      : { unavailableReplicas: 1 }),
    conditions: [
      condition(
        "Available",
        available > 0,
        available > 0 ? "MinimumReplicasAvailable" : "MinimumReplicasUnavailable",
        `Deployment has ${available > 0 ? "" : "not "}minimum availability.`,
      ),
      condition(
        "Progressing",
        true,
        "NewReplicaSetAvailable",
        `ReplicaSet "${metadata.name}-6d5f8c9b7d" has successfully progressed.`,
      ),
    ],
  };
}
