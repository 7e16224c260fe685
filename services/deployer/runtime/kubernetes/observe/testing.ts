import type { V1ContainerStatus, V1Pod } from "@kubernetes/client-node";
import { type AppRelease, manifestsOf } from "../release/manifests.ts";
import { podFacts } from "./status/pod-facts.ts";
import type { Observation } from "./status/status.ts";

export const release: AppRelease = {
  serviceId: "svc_1",
  accountId: "acc_1",
  projectId: "prj_1",
  environmentId: "env_1",
  names: { project: "shop", environment: "test", service: "web" },
  type: "web",
  version: 2,
  revision: 5,
  artifact: "image:example.test/web:2",
  port: 8080,
  replicas: 1,
  size: "nano",
  minReadySeconds: 0,
};
export const options = {
  apps: {
    domain: "example.test",
    scheme: "https" as const,
    drainSeconds: 5,
    graceSeconds: 30,
    rolloutDeadlineMs: 300_000,
    reserved: { cpu: 0.1, memory: 0.5, storage: 0.1 },
  },
  ingress: { enabled: true, annotations: {} },
  host: "web-test-shop.example.test",
  pullSecret: false,
};

/** Seconds after the release was applied, as ms. */
export const at = (seconds: number) => Date.UTC(2026, 0, 1) + seconds * 1000;
export const date = (seconds: number) => new Date(at(seconds));

type Pod = {
  of?: Partial<AppRelease>;
  made?: number;
  readySince?: number;
  unreadySince?: number;
  state?: V1ContainerStatus["state"];
  last?: V1ContainerStatus["lastState"];
  restarts?: number;
  ending?: number;
  /** Why it was ended for good, in the cluster's words. */
  evicted?: string;
  unschedulable?: string;
};

/** Returns a pod of the release. */
export function pod(name: string, given: Pod): V1Pod {
  const own = { ...release, ...given.of };
  const { template } = manifestsOf(own, options).deployment;
  const since = given.readySince ?? given.unreadySince;
  const conditions = [
    {
      type: "Ready",
      status: given.readySince === undefined ? "False" : "True",
      ...(since !== undefined && { lastTransitionTime: date(since) }),
    },
    ...(given.unschedulable
      ? [{ type: "PodScheduled", status: "False", reason: "Unschedulable", message: given.unschedulable }]
      : []),
  ];
  return {
    metadata: {
      ...template.metadata,
      name: `web-${name}`,
      uid: name,
      creationTimestamp: date(given.made ?? 0),
      ...(given.ending !== undefined && {
        deletionTimestamp: date(given.ending + 30),
        deletionGracePeriodSeconds: 30,
      }),
    },
    status: {
      ...(given.evicted
        ? { phase: "Failed", reason: "Evicted", message: given.evicted }
        : { phase: "Running" }),
      conditions,
      containerStatuses: [
        {
          name: "app",
          image: "",
          imageID: "",
          ready: given.readySince !== undefined,
          restartCount: given.restarts ?? 0,
          state: given.state ?? { running: { startedAt: date(given.made ?? 0) } },
          lastState: given.last,
        },
      ],
    },
  };
}

/** Returns the observation of a service with these pods. */
export function seen(
  pods: V1Pod[],
  changes: Partial<AppRelease> = {},
  recorded: Partial<Observation["recorded"]> = {},
) {
  const own = { ...release, ...changes };
  const manifests = manifestsOf(own, options);
  return {
    deployment: { metadata: { name: "web" }, spec: manifests.deployment },
    recorded: { release: own, manifests, appliedAt: at(0), usage: [], ...recorded },
    pods: pods.map(podFacts),
  } satisfies Observation;
}

/** Changes that make a pod one of an older release. */
export const old = { version: 1 };
/** Returns the state of a container that ran from one second to the other. */
export const ended = (from: number, to: number, exitCode = 7, reason = "Error") => ({
  terminated: { exitCode, reason, startedAt: date(from), finishedAt: date(to) },
});
