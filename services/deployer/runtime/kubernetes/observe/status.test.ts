import type { V1ContainerStatus, V1Pod } from "@kubernetes/client-node";
import { describe, expect, test } from "vitest";
import { annotation, label } from "../../../kube/names.ts";
import { type AppRelease, manifestsOf } from "../release/manifests.ts";
import { podFacts } from "./pod-facts.ts";
import { describeStatus, type Observation } from "./status.ts";
import { usageNow, usageWanted } from "./usage.ts";

const release: AppRelease = {
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
const options = {
  apps: {
    domain: "example.test",
    scheme: "https" as const,
    drainSeconds: 5,
    graceSeconds: 30,
    rolloutDeadlineMs: 300_000,
    reserved: { cpu: 0.1, memory: 0.5 },
  },
  ingress: { annotations: {} },
  host: "web-test-shop.example.test",
  pullSecret: false,
};

/** Seconds after the release was applied, as ms. */
const at = (seconds: number) => Date.UTC(2026, 0, 1) + seconds * 1000;
const date = (seconds: number) => new Date(at(seconds));

type Pod = {
  of?: Partial<AppRelease>;
  made?: number;
  readySince?: number;
  unreadySince?: number;
  state?: V1ContainerStatus["state"];
  last?: V1ContainerStatus["lastState"];
  restarts?: number;
  ending?: number;
  unschedulable?: string;
};

function pod(name: string, given: Pod): V1Pod {
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
      phase: "Running",
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

function seen(
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

const old = { version: 1 };
const ended = (from: number, to: number, exitCode = 7, reason = "Error") => ({
  terminated: { exitCode, reason, startedAt: date(from), finishedAt: date(to) },
});

describe("the status of a service on a cluster", () => {
  test("it starts, runs once it is ready for as long as it was asked, and tells since when", () => {
    const late = { minReadySeconds: 10 };
    const waiting = seen([pod("a", { of: late, readySince: 2 })], late);
    expect(describeStatus(waiting, at(5))).toMatchObject({ state: "starting", restarts: 0 });
    expect(describeStatus(waiting, at(5)).healthySince).toBeUndefined();
    expect(describeStatus(waiting, at(12))).toMatchObject({
      state: "running",
      healthySince: date(12).toISOString(),
      serving: { version: 2, revision: 5 },
    });
  });

  test("the older release serves until the new one is whole and the older one is on its way out", () => {
    const before = pod("old", { of: old, readySince: -50, made: -60 });
    const starting = describeStatus(seen([before, pod("new", {})]), at(1));
    expect(starting).toMatchObject({ state: "starting", serving: { version: 1 } });
    const ready = pod("new", { readySince: 2 });
    expect(describeStatus(seen([before, ready]), at(3))).toMatchObject({
      state: "starting",
      serving: { version: 2 },
      healthySince: date(2).toISOString(),
    });
    const leaving = pod("old", { of: old, readySince: -50, made: -60, ending: 3 });
    expect(describeStatus(seen([leaving, ready]), at(4)).state).toBe("running");
  });

  test("one that ends again and again is crashed, or degraded while the older one serves", () => {
    const crashing = pod("new", {
      restarts: 2,
      state: { waiting: { reason: "CrashLoopBackOff" } },
      last: ended(1, 2),
    });
    const alone = describeStatus(seen([crashing]), at(4));
    expect(alone).toMatchObject({ state: "crashed", reason: "crash_loop", restarts: 2 });
    expect(alone.message).toContain("exit code 7");
    expect(alone.crashed?.uid).toBe("new");
    const serving = pod("old", { of: old, readySince: -50 });
    expect(describeStatus(seen([crashing, serving]), at(4)).state).toBe("degraded");
    const again = pod("new", { restarts: 2, state: { running: { startedAt: date(20) } }, last: ended(1, 2) });
    expect(describeStatus(seen([again]), at(21)).state).toBe("crashed");
  });

  test("the first crash of what was available degrades it; running again makes it whole", () => {
    const crashed = pod("a", { state: ended(0, 60, 137, "OOMKilled"), unreadySince: 60 });
    const status = describeStatus(seen([crashed], {}, { healthyAt: at(1) }), at(60));
    expect(status).toMatchObject({ state: "degraded", reason: "replica_ended" });
    expect(status.message).toContain("memory");
    const back = pod("a", { readySince: 62, restarts: 1, last: ended(0, 60) });
    const whole = describeStatus(seen([back], {}, { healthyAt: at(1) }), at(63));
    expect(whole).toMatchObject({ state: "running", restarts: 1, healthySince: date(1).toISOString() });
    expect(whole.message).toBeUndefined();
  });

  test("an image that cannot be pulled is told in the registry's words, the same at each try", () => {
    const words = 'failed to pull and unpack image "example.test/web:2": not found';
    const failing = (reason: string, message: string) =>
      describeStatus(seen([pod("a", { state: { waiting: { reason, message } } })]), at(9));
    const first = failing("ErrImagePull", words);
    expect(first).toMatchObject({ state: "degraded", reason: "image_pull_failed" });
    expect(first.message).toContain(words);
    const backOff = `Back-off pulling image "example.test/web:2": ErrImagePull: ${words}`;
    expect(failing("ImagePullBackOff", backOff)).toEqual(first);
  });

  test("a container that the cluster refuses says so, and so does a quota that is full", () => {
    const message = "container has runAsNonRoot and image will run as root";
    const waiting = { reason: "CreateContainerConfigError", message };
    const refused = describeStatus(seen([pod("a", { state: { waiting } })]), at(2));
    expect(refused).toMatchObject({ state: "degraded", reason: "start_failed" });
    expect(refused.message).toContain(message);
    const full = seen([]);
    const conditions = [{ type: "ReplicaFailure", status: "True", message: "exceeded quota: berth" }];
    const status = describeStatus(
      { ...full, deployment: { ...full.deployment, status: { conditions } } },
      at(2),
    );
    expect(status).toMatchObject({ state: "degraded", reason: "start_failed" });
    expect(status.message).toContain("exceeded quota");
  });

  test("while no node takes it the status says what is missing; past the deadline it is late", () => {
    const waiting = seen([pod("a", { state: {}, unschedulable: "0/1 nodes: Insufficient memory" })]);
    const soon = describeStatus(waiting, at(10));
    expect(soon.state).toBe("starting");
    expect(soon.message).toContain("Insufficient memory");
    const late = describeStatus(waiting, at(301));
    expect(late).toMatchObject({ state: "degraded", reason: "rollout_deadline_exceeded" });
    expect(late.message).toMatch(/after 300 s[\s\S]*Insufficient memory/);
  });

  test("without replicas it is stopped once nothing runs any more", () => {
    const none = { replicas: 0 };
    const running = pod("a", { of: none, readySince: 1 });
    expect(describeStatus(seen([running], none), at(2)).state).toBe("starting");
    const leaving = pod("a", { of: none, readySince: 1, ending: 2 });
    expect(describeStatus(seen([leaving], none), at(3))).toMatchObject({ state: "stopped" });
    expect(describeStatus(seen([leaving], none), at(3)).serving).toBeUndefined();
  });
});

describe("what ran and since when", () => {
  const nano = { size: "nano" as const };

  test("a replica counts from the second at which it was available", () => {
    expect(usageNow(seen([]), at(5))).toEqual([]);
    const ready = seen([pod("a", { readySince: 3 })]);
    expect(usageNow(ready, at(9))).toEqual([{ at: at(3), replicas: 1, ...nano }]);
  });

  test("a roll-over changes nothing, however it is watched", () => {
    const usage = [{ at: at(-50), replicas: 1, ...nano }];
    const before = pod("old", { of: old, made: -60, readySince: -50 });
    const both = seen([before, pod("new", { readySince: 2 })], {}, { usage });
    expect(usageNow(both, at(3))).toBe(both.recorded.usage);
    const after = seen([pod("new", { readySince: 2 })], {}, { usage });
    expect(usageNow(after, at(9))).toBe(after.recorded.usage);
  });

  test("a crash that nobody watched is dated by the cluster, and so is the return", () => {
    const usage = [{ at: at(3), replicas: 1, ...nano }];
    const back = pod("a", { readySince: 62, restarts: 1, last: ended(1, 60) });
    expect(usageNow(seen([back], {}, { usage }), at(500))).toEqual([
      ...usage,
      { at: at(60), replicas: 0, ...nano },
      { at: at(62), replicas: 1, ...nano },
    ]);
  });

  test("more replicas count as each becomes available, and never more than are wanted", () => {
    const usage = [{ at: at(3), replicas: 1, ...nano }];
    const three = { replicas: 3 };
    const pods = [3, 10, 12, 13].map((readySince, n) => pod(`p${n}`, { of: three, readySince }));
    expect(usageNow(seen(pods, three, { usage }), at(20))).toEqual([
      ...usage,
      { at: at(10), replicas: 2, ...nano },
      { at: at(12), replicas: 3, ...nano },
    ]);
  });

  test("fewer replicas count from the moment they are wanted; the rest is not counted twice", () => {
    const usage = [{ at: at(3), replicas: 3, ...nano }];
    const fewer = usageWanted(usage, 1, at(20));
    expect(fewer).toEqual([...usage, { at: at(20), replicas: 1, ...nano }]);
    expect(usageWanted(fewer, 2, at(30))).toBe(fewer);
    const pods = ["a", "b", "c"].map((name) => pod(name, { readySince: 2 }));
    const still = seen(pods, {}, { usage: fewer });
    expect(usageNow(still, at(21))).toBe(fewer);
    const gone = seen([pod("a", { readySince: 2 })], {}, { usage: fewer });
    expect(usageNow(gone, at(50))).toBe(fewer);
  });

  test("another size counts from when its replicas are whole", () => {
    const usage = [{ at: at(3), replicas: 1, ...nano }];
    const small = { size: "small" as const };
    const before = pod("old", { made: -60, readySince: 3 });
    const rolling = seen([before, pod("new", { of: small })], small, { usage });
    expect(usageNow(rolling, at(10))).toBe(usage);
    const whole = seen([pod("new", { of: small, made: 8, readySince: 11 })], small, { usage });
    expect(usageNow(whole, at(30))).toEqual([...usage, { at: at(11), replicas: 1, size: "small" }]);
  });
});

test("pods carry what tells them apart", () => {
  const { template } = manifestsOf(release, options).deployment;
  expect(template.metadata?.labels).toMatchObject({
    [label("service")]: "svc_1",
    [label("version")]: "2",
    [label("revision")]: "5",
  });
  const other = manifestsOf({ ...release, size: "large" }, options).deployment.template;
  const mark = annotation("template");
  expect(other.metadata?.annotations?.[mark]).not.toBe(template.metadata?.annotations?.[mark]);
});
