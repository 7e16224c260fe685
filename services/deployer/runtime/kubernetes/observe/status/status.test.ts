import { describe, expect, test } from "vitest";
import { at, date, ended, old, pod, seen } from "../testing.ts";
import { describeStatus, msUntilChange } from "./status.ts";

describe("the status of a service on a cluster", () => {
  test("it starts, runs once it is ready for as long as it was asked, and reports since when", () => {
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

  test("one that runs for long without being ready says what is waited for", () => {
    const waits = pod("new", { state: { running: { startedAt: date(0) } } });
    expect(describeStatus(seen([waits]), at(19))).toMatchObject({ state: "starting" });
    expect(msUntilChange(seen([waits]), at(19))).toBe(1_000);
    const slow = describeStatus(seen([waits]), at(20));
    expect(slow).toMatchObject({ state: "starting", reason: "not_answering" });
    expect(slow.message).toContain("PORT (");
    expect(msUntilChange(seen([waits]), at(20))).toBeUndefined();
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

  test("one that wrote more than its size has room for was evicted, and says so until another stands in for it", () => {
    const evicted = pod("a", { evicted: "Container app exceeded its local ephemeral storage limit 1Gi. " });
    const starting = pod("b", { made: 60 });
    const status = describeStatus(seen([evicted, starting], {}, { healthyAt: at(1) }), at(60));
    expect(status).toMatchObject({ state: "degraded", reason: "replica_ended" });
    expect(status.message).toContain("more local disk than its size allows");
    const first = describeStatus(seen([evicted, starting]), at(60));
    expect(first).toMatchObject({ state: "starting", message: status.message });
    const ready = pod("b", { made: 60, readySince: 61 });
    const whole = describeStatus(seen([evicted, ready], {}, { healthyAt: at(1) }), at(62));
    expect(whole).toMatchObject({ state: "running" });
    expect(whole.message).toBeUndefined();
    const pressed = pod("a", { evicted: "The node was low on resource: memory." });
    expect(describeStatus(seen([pressed, starting]), at(60)).message).toBeUndefined();
  });

  test("an image that cannot be pulled is reported in the registry's words, the same at each try", () => {
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
