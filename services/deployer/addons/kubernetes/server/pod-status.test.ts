import type { V1ContainerStatus, V1Pod, V1StatefulSet } from "@kubernetes/client-node";
import { expect, test } from "vitest";
import { PASSWORD, SIZE } from "./annotations.ts";
import { addonOutcome, addonStatus } from "./pod-status.ts";

const NOW = Date.parse("2030-01-01T00:10:00Z");
const want = { mark: "m", size: "nano" as const };
const labels = {
  "berth.dev/service": "svc_a",
  "berth.dev/environment": "env_a",
  "app.kubernetes.io/name": "redis",
};
const set = { metadata: { name: "svc-a", labels } } as V1StatefulSet;

function podWith(
  { ready = false, placed = true, at = "2030-01-01T00:09:00Z", message = "" } = {},
  container: Partial<V1ContainerStatus> = {},
): V1Pod {
  const condition = (type: string, yes: boolean) => ({
    ...{ type, status: yes ? "True" : "False", message },
    lastTransitionTime: at as never, // as in a watch
  });
  return {
    metadata: { annotations: { [PASSWORD]: "m", [SIZE]: "nano" } },
    spec: { containers: [{ name: "redis", image: "example/redis:1" }] },
    status: {
      conditions: [condition("Ready", ready), condition("PodScheduled", placed)],
      containerStatuses: [container as V1ContainerStatus],
    },
  };
}

const seen = (pod: V1Pod | undefined) => {
  const outcome = addonOutcome(pod, want, NOW);
  const status = addonStatus(set, pod, NOW);
  const message = outcome.state === "ready" ? undefined : outcome.message;
  expect(status?.problem?.message).toBe(message);
  return [outcome.state, status?.problem?.state ?? "running", message];
};

test("a server is ready when the pod that was made for this password and size serves", () => {
  const pod = podWith({ ready: true });
  expect(seen(pod)).toEqual(["ready", "running", undefined]);
  const replaced = { state: "waiting", message: "The server is being replaced." };
  expect(addonOutcome(pod, { ...want, mark: "other" }, NOW)).toEqual(replaced);
  expect(addonOutcome(pod, { ...want, size: "large" }, NOW)).toEqual(replaced);
  const leaving = { ...pod, metadata: { ...pod.metadata, deletionTimestamp: new Date(NOW) } };
  expect(seen(leaving)).toEqual(["waiting", "starting", replaced.message]);
});

test("a volume or a node is waited for, and reported as missing after 30 seconds", () => {
  const message = "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims.";
  const pending = { placed: false, message };
  expect(seen(podWith({ ...pending, at: "2030-01-01T00:09:50Z" }))).toEqual([
    ...["waiting", "starting", "The volume is being created."],
  ]);
  const [state, shown, late] = seen(podWith(pending));
  expect([state, shown]).toEqual(["failed", "degraded"]);
  expect(late).toBe(`The cluster has no storage for the volume. ${message}`);
  const full = podWith({ placed: false, message: "0/1 nodes are available: 1 Insufficient memory." });
  expect(seen(full)[2]).toMatch(/^No node of the cluster has room for the server\. .*Insufficient memory/);
});

test("an image that cannot be pulled, a server that ends, that is silent, or was too big say so", () => {
  const waiting = (reason: string) => ({ state: { waiting: { reason } }, restartCount: 0 });
  expect(seen(podWith({}, waiting("ImagePullBackOff")))).toEqual([
    ...["failed", "degraded", "The server's image, example/redis:1, cannot be pulled."],
  ]);
  expect(seen(podWith({}, waiting("ContainerCreating")))).toEqual([
    ...["waiting", "starting", "The server is starting."],
  ]);
  const silent = seen(podWith({}, { started: true, restartCount: 0, state: { running: {} } }));
  expect(silent).toEqual(["failed", "degraded", "The server does not answer."]);
  const ended = (terminated: object) => ({ lastState: { terminated: terminated as never }, restartCount: 3 });
  const wordy = podWith({}, ended({ exitCode: 1, message: "one\nFatal: no\0 way\n" }));
  expect(seen(wordy)).toEqual([
    ...["failed", "crashed", "The server exited with code 1 and is being restarted. Fatal: no\ufffd way"],
  ]);
  const big = podWith({}, ended({ exitCode: 137, reason: "OOMKilled" }));
  expect(seen(big)[2]).toBe(
    "The server was killed because it needed more memory than its size allows; it is being restarted.",
  );
});

test("usage says since when a server serves or not, and orders what happened within one second", () => {
  const usage = (ready: boolean) => addonStatus(set, podWith({ ready }), NOW)?.usage;
  const at = Date.parse("2030-01-01T00:09:00Z");
  expect(usage(false)).toEqual([{ at, replicas: 0, size: "nano" }]);
  expect(usage(true)).toEqual([{ at: at + 1, replicas: 1, size: "nano" }]);
  expect(addonStatus(set, undefined, NOW)?.usage).toEqual([]);
});

test("a set that is being removed, or is none of ours, is no addon's", () => {
  const leaving = { metadata: { ...set.metadata, deletionTimestamp: new Date(NOW) } };
  expect(addonStatus(leaving, podWith({ ready: true }), NOW)).toBeUndefined();
  expect(addonStatus({ metadata: { name: "other" } }, undefined, NOW)).toBeUndefined();
});
