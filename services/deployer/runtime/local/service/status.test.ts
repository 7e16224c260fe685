import { describe, expect, test } from "vitest";
import { describeStatus, type Observation } from "./status.ts";

const rules = { crashLoopAfter: 3, rolloutDeadlineMs: 300_000 };
const appliedAt = Date.UTC(2026, 0, 1);

function judge(
  desired: Partial<Observation["desired"]>,
  live?: Observation["live"],
  after = 1000,
  stopping = false,
) {
  const whole = {
    version: 2,
    revision: 7,
    replicas: 2,
    available: 0,
    crashes: 0,
    restarts: 0,
    appliedAt,
    ...desired,
  };
  return describeStatus({ serviceId: "svc_1", stopping, desired: whole, live }, rules, appliedAt + after);
}

const older = { version: 1, revision: 6, available: 2 };
const crash = { crashes: 3, lastEnd: "It ended with exit code 1." };

describe("the status of a service", () => {
  test("is starting until all replicas are available, then running since that moment", () => {
    expect(judge({})).toEqual({
      serviceId: "svc_1",
      version: 2,
      revision: 7,
      state: "starting",
      available: 0,
      restarts: 0,
    });
    const status = judge(
      { available: 2, availableAt: appliedAt + 500 },
      { version: 2, revision: 7, available: 2 },
    );
    expect(status).toMatchObject({ state: "running", healthySince: "2026-01-01T00:00:00.500Z" });
    expect(status.serving).toEqual({ version: 2, revision: 7 });
    expect([status.available, judge({ available: 1 }, older).available]).toEqual([2, 3]);
  });

  test("says what is waited for once it starts slowly", () => {
    const pending = "It runs, but nothing accepted a connection on PORT.";
    expect(judge({ pending, slow: true })).toMatchObject({
      state: "starting",
      reason: "not_answering",
      message: pending,
    });
    expect(judge({ pending })).not.toHaveProperty("message");
  });

  test("names the older release that serves while the new one starts", () => {
    expect(judge({}, older)).toMatchObject({
      state: "starting",
      version: 2,
      serving: { version: 1, revision: 6 },
    });
  });

  test("is crashed when it loops and nothing serves, degraded when something does", () => {
    expect(judge(crash)).toMatchObject({ state: "crashed", reason: "crash_loop", message: crash.lastEnd });
    expect(judge(crash, older)).toMatchObject({ state: "degraded", reason: "crash_loop" });
    expect(judge({ ...crash, available: 1 })).toMatchObject({ state: "degraded", reason: "crash_loop" });
    expect(judge({ ...crash, crashes: 2 })).toMatchObject({ state: "starting", message: crash.lastEnd });
  });

  test("is degraded after the rollout deadline, and says what is waited for or how it ended", () => {
    const pending = "It runs, but nothing accepted a connection on PORT.";
    expect(judge({ pending }, older, 299_999)).toMatchObject({ state: "starting" });
    const late = judge({ pending }, older, 300_000);
    expect(late).toMatchObject({ state: "degraded", reason: "rollout_deadline_exceeded" });
    expect(late.message).toBe(`The new release was not available after 300 s. ${pending}`);
    expect(judge(crash, undefined, 300_000)).toMatchObject({
      state: "crashed",
      reason: "rollout_deadline_exceeded",
    });
    expect(judge({ availableAt: appliedAt, available: 1, ...crash, crashes: 1 }, older, 900_000).reason).toBe(
      "replica_ended",
    );
  });

  test("is degraded when what was available does not answer any more", () => {
    const pending = "It runs, but nothing accepted a connection on PORT.";
    const seen = { availableAt: appliedAt, available: 1, silent: true, pending };
    const reason = "health_check_failed";
    expect(judge(seen)).toMatchObject({ state: "degraded", reason, message: pending });
    expect(judge({ ...seen, ...crash })).toMatchObject({ state: "degraded", reason: "crash_loop" });
  });

  test("is stopped with no replicas wanted, or while everything is ended", () => {
    expect(judge({ replicas: 0 })).toMatchObject({ state: "stopped" });
    expect(judge({ available: 2 }, older, 1000, true)).toMatchObject({ state: "stopped" });
  });
});
