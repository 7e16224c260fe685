import type { V1ContainerStatus, V1Pod, V1StatefulSet } from "@kubernetes/client-node";
import { expect, test } from "vitest";
import { PASSWORD, PRIMARY, REPLACED, SIZE } from "./annotations.ts";
import { addonOutcome, addonStatus as statusOf } from "./pod-status.ts";

const NOW = Date.parse("2030-01-01T00:10:00Z");
const want = { mark: "m", size: "nano" as const };
const labels = {
  "berth.dev/service": "svc_a",
  "berth.dev/environment": "env_a",
  "app.kubernetes.io/name": "redis",
};
const set = { metadata: { name: "svc-a", labels } } as V1StatefulSet;
const addonStatus = (of: V1StatefulSet, pod: V1Pod | undefined, now: number) =>
  statusOf(of, pod ? [pod] : [], now);

function podWith(
  { ready = false, placed = true, at = "2030-01-01T00:09:00Z", message = "" } = {},
  container: Partial<V1ContainerStatus> = {},
): V1Pod {
  const condition = (type: string, yes: boolean) => ({
    ...{ type, status: yes ? "True" : "False", message },
    lastTransitionTime: at as never, // as in a watch
  });
  return {
    metadata: { name: "svc-a-0", annotations: { [PASSWORD]: "m", [SIZE]: "nano" } },
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
  const full = podWith(
    {},
    ended({
      exitCode: 1,
      message:
        'PANIC:  could not write to file "pg_wal/xlogtemp.9": No space left on device\nLOG: terminated',
    }),
  );
  expect(seen(full)[2]).toMatch(/volume is full.*config\.storageGib/);
  const message = "ERROR: could not resize shared memory segment: No space left on device\nFATAL: no";
  expect(seen(podWith({}, ended({ exitCode: 1, message })))[2]).toContain("exited with code 1");
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

test("both servers count while the primary serves, and what is left to do with them is known", () => {
  const annotations = { [PASSWORD]: "m", [SIZE]: "nano" };
  const template = {
    metadata: { annotations: { ...annotations, [PRIMARY]: "1" } },
    spec: { containers: [{ image: "example/redis:1" }] },
  };
  const pair = {
    metadata: { ...set.metadata, annotations: { [REPLACED]: "before" } },
    spec: { replicas: 2, template },
  } as unknown as V1StatefulSet;
  const pod = (ordinal: number, ready: boolean, at: string, uid = `uid-${ordinal}`) => {
    const own = podWith({ ready, at });
    return { ...own, metadata: { ...own.metadata, name: `svc-a-${ordinal}`, uid } };
  };
  const [at, later] = ["2030-01-01T00:09:00Z", "2030-01-01T00:09:30Z"];
  const of = (...pods: V1Pod[]) => statusOf(pair, pods, NOW)!;
  const usage = (...pods: V1Pod[]) => of(...pods).usage;
  expect(of(pod(0, true, at), pod(1, true, later))).toMatchObject({
    running: true,
    replicas: 2,
    primary: "svc-a-1",
  });
  expect(usage(pod(0, true, at), pod(1, true, later))).toMatchObject([
    { at: Date.parse(later) + 2, replicas: 2 },
  ]);
  expect(usage(pod(0, false, later), pod(1, true, at))).toMatchObject([
    { at: Date.parse(later) + 1, replicas: 1 },
  ]);
  expect(of(pod(0, true, at), pod(1, false, later))).toMatchObject({
    running: false,
    usage: [{ replicas: 0 }],
  });
  // While one is being replaced, its time is not known yet.
  expect(usage(pod(1, true, at))).toEqual([]);
  expect(of(pod(0, true, at), pod(1, true, at)).outdated).toBeUndefined();
  expect(of(pod(0, true, at, "before"), pod(1, true, at)).outdated).toBe(true);
  const old = pod(0, true, at);
  expect(of({ ...old, metadata: { ...old.metadata, annotations: {} } }, pod(1, true, at)).outdated).toBe(
    true,
  );
});
