import fc from "fast-check";
import { expect, test } from "vitest";
import type { RuntimeStatus } from "../runtime/port.ts";
import { TIMEOUTS } from "../terms/timeouts.ts";
import {
  type Action,
  type ActiveDeployment,
  type Desired,
  type DesiredPooler,
  type Observed,
  plan,
} from "./plan.ts";

const NOW = 1_800_000_000_000;

function desired(more: Partial<Desired> = {}): Desired {
  const blank = { now: NOW, type: "web", environmentId: "env_a", staged: false, deleting: false };
  const newest = { version: 9, revision: 9 };
  return { ...blank, leftovers: [], recorded: {}, newest, ...more };
}

function active(more: Partial<ActiveDeployment> = {}): ActiveDeployment {
  return { id: "dep_new", version: 2, status: "queued", fromSource: true, createdAt: NOW, ...more };
}

function running(more: Partial<RuntimeStatus> = {}): RuntimeStatus {
  return { serviceId: "svc_a", version: 1, revision: 1, state: "running", restarts: 0, ...more };
}

const live = { version: 1, revision: 1, healthy: true };
const timeouts = { ...TIMEOUTS, buildMs: 15 * 60_000 };
const idle: Observed = {};

function actionsOf(want: Partial<Desired>, observed: Partial<Observed> = {}): Action["do"][] {
  const found = plan(desired(want), { ...idle, ...observed }, timeouts);
  return found.actions.map((action) => action.do);
}

function failure(want: Partial<Desired>, observed: Partial<Observed> = {}) {
  const found = plan(desired(want), { ...idle, ...observed }, timeouts).actions;
  const action = found.find((one) => one.do === "fail");
  return action?.do === "fail" ? `${action.stage} ${action.code}` : undefined;
}

test("a queued archive is built once it is admitted, and waits until then", () => {
  const waiting = plan(desired({ active: active() }), idle, timeouts);
  expect(waiting).toEqual({ actions: [{ do: "admit-builds" }], wakeAt: NOW + timeouts.queueMs });
});

test("a build that no process runs is begun again; one that runs here is left alone", () => {
  const building = active({ status: "building", buildStartedAt: NOW });
  expect(actionsOf({ active: building })).toEqual(["build"]);
  expect(actionsOf({ active: building }, { building: building.id })).toEqual([]);
});

test("an image is applied at once, and so is what was built", () => {
  expect(actionsOf({ active: active({ fromSource: false }) })).toEqual(["apply"]);
  expect(actionsOf({ active: active({ status: "built" }) })).toEqual(["apply"]);
});

test("a release command runs before a deployment is applied, beside what runs, and has a deadline of its own", () => {
  for (const status of ["queued", "built"] as const) {
    const is = (more: Partial<ActiveDeployment>) => ({
      live,
      active: active({ status, fromSource: status === "built", ...more }),
    });
    const started = { releaseCommand: "started", releaseStartedAt: NOW } as const;
    expect(actionsOf(is({ releaseCommand: "waiting" }), { runtime: running() })).toContain("release-command");
    expect(actionsOf(is(started), { runtime: running() })).toContain("release-command");
    expect(actionsOf(is(started))).toContain("reapply-live");
    expect(actionsOf(is({ releaseCommand: "finished" }))).toEqual(["apply"]);
    const late = { ...started, createdAt: NOW - timeouts.queueMs, applyStartedAt: NOW - timeouts.applyMs };
    expect(failure(is(late))).toBeUndefined();
    const releaseStartedAt = NOW - timeouts.releaseCommandMs;
    expect(failure(is({ ...late, releaseStartedAt }))).toBe("release release_command_timeout");
    const finished = { releaseCommand: "finished", createdAt: NOW - timeouts.queueMs } as const;
    expect(failure(is(finished))).toBeUndefined();
  }
});

test("what is left of another release command is ended before anything begins", () => {
  const commandsLeft = ["dep_old"];
  const next = active({ fromSource: false, releaseCommand: "waiting" });
  expect(actionsOf({ commandsLeft, active: next })).toEqual(["remove-command", "release-command"]);
  expect(actionsOf({ commandsLeft, deleting: true })).toEqual(["remove-command", "tear-down"]);
});

test("what was applied after the backup that the database was restored from runs on until the next deployment", () => {
  const newest = { version: 1, revision: 1 };
  const later = running({ version: 3, revision: 4 });
  expect(plan(desired({ live, newest }), { ...idle, runtime: later }, timeouts).actions).toEqual([
    { do: "keep-unknown", version: 3, revision: 4 },
  ]);
  // Its first deployment was after the backup.
  expect(actionsOf({ newest: { version: 0, revision: 0 } }, { runtime: running() })).toEqual([
    "keep-unknown",
  ]);
  const kept = { live, newest: { version: 3, revision: 4 }, keptVersion: 3, dirtyAt: NOW - 60_000 };
  const recorded = { state: "running", reason: null, message: null, serving: null, url: null };
  expect(actionsOf({ ...kept, recorded }, { runtime: { ...later, drifted: true } })).toEqual([]);
  expect(actionsOf({ ...kept, recorded }, { runtime: { ...later, state: "crashed" } })).toEqual([
    "record-status",
  ]);
  expect(actionsOf({ ...kept, active: active({ version: 4, status: "built" }) }, { runtime: later })).toEqual(
    ["apply"],
  );
  expect(actionsOf({ ...kept, recorded })).toEqual(["reapply-live"]);
});

test("variables that changed after the backup stay with the release that has them", () => {
  const later = running({ revision: 3 });
  expect(actionsOf({ live, newest: { version: 1, revision: 1 } }, { runtime: later })).toEqual([
    "keep-unknown",
  ]);
});

test("a build that a newer deployment replaced is stopped, and what it left is discarded", () => {
  const leftovers = [{ deploymentId: "dep_old", accountId: "acc_1", buildId: "bld_old" }];
  expect(actionsOf({ active: active(), leftovers }, { building: "dep_old" })).toEqual([
    "stop-build",
    "admit-builds",
    "discard",
  ]);
});

test("what is left of builds is discarded last: a registry that is away holds up no deployment and no status", () => {
  const leftovers = [{ deploymentId: "dep_old", accountId: "acc_1", buildId: "bld_old" }];
  const image = active({ fromSource: false });
  expect(actionsOf({ active: image, leftovers, live }, { runtime: running({ state: "starting" }) })).toEqual([
    "apply",
    "discard",
  ]);
  expect(actionsOf({ leftovers, live }, { runtime: running({ state: "starting" }) })).toEqual([
    "record-status",
    "discard",
  ]);
});

test("every state that is not final has a deadline", () => {
  const late = (ms: number) => NOW - ms;
  expect(failure({ active: active({ createdAt: late(timeouts.queueMs) }) })).toBe(
    "queue queue_deadline_exceeded",
  );
  const image = active({ fromSource: false, createdAt: late(timeouts.queueMs) });
  expect(failure({ active: image })).toBe("queue queue_deadline_exceeded");
  const building = active({ status: "building", buildStartedAt: late(timeouts.buildMs) });
  expect(failure({ active: building }, { building: building.id })).toBe("build build_timeout");
  const built = active({ status: "built", applyStartedAt: late(timeouts.applyMs) });
  expect(failure({ active: built })).toBe("apply apply_deadline_exceeded");
});

test("a deadline that is not reached yet is when the service is planned again", () => {
  const building = active({ status: "building", buildStartedAt: NOW - 1_000 });
  const found = plan(desired({ active: building }), { ...idle, building: building.id }, timeouts);
  expect(found).toEqual({ actions: [], wakeAt: NOW - 1_000 + timeouts.buildMs });
});

test("a live release that the runtime lost, or has an older or an unrecorded form of, is applied again", () => {
  expect(actionsOf({ live })).toEqual(["reapply-live"]);
  const two = { version: 2, revision: 3, healthy: true };
  expect(actionsOf({ live: two }, { runtime: running({ version: 1, revision: 3 }) })).toEqual([
    "reapply-live",
  ]);
  expect(actionsOf({ live: two }, { runtime: running({ version: 2, revision: 2 }) })).toEqual([
    "reapply-live",
  ]);
  // Applied by a process that died before it could record it.
  const recorded = { state: "running" };
  const later = { runtime: running({ version: 2, revision: 4 }) };
  expect(actionsOf({ live: two, recorded }, later)).toEqual(["reapply-live"]);
  // A comparison is not enough: a service that takes no changes by itself would stay behind, compared for ever.
  const dirty = { dirtyAt: NOW - timeouts.debounceMs, dirtySince: NOW - timeouts.debounceMs };
  expect(actionsOf({ live: two, recorded, ...dirty }, later)).toEqual(["compare-variables"]);
});

test("what runs and is nobody's release is removed, but not while a deployment is under way", () => {
  expect(actionsOf({}, { runtime: running() })).toEqual(["remove-stray"]);
  expect(actionsOf({ live }, { runtime: running({ version: 2 }) })).toEqual(["remove-stray", "reapply-live"]);
  const building = active({ version: 3, status: "building", buildStartedAt: NOW });
  const recorded = { runtime: running({ version: 2 }), building: building.id };
  expect(actionsOf({ live, active: building }, recorded)).toEqual([]);
});

test("changed variables are taken after a quiet time, and after a longer one even while they keep changing", () => {
  const recorded = { state: "running" };
  const observed = { ...idle, runtime: running() };
  const fresh = desired({ live, recorded, dirtyAt: NOW - 500, dirtySince: NOW - 500 });
  expect(plan(fresh, observed, timeouts)).toEqual({ actions: [], wakeAt: NOW - 500 + timeouts.debounceMs });
  const quiet = { live, recorded, dirtyAt: NOW - timeouts.debounceMs, dirtySince: NOW - timeouts.debounceMs };
  expect(actionsOf(quiet, observed)).toEqual(["compare-variables"]);
  const restless = { live, recorded, dirtyAt: NOW - 1, dirtySince: NOW - timeouts.debounceMaxMs };
  expect(actionsOf(restless, observed)).toEqual(["compare-variables"]);
});

test("changed variables wait while the release that runs is starting, but not for ever, and for none that fails", () => {
  const long = { dirtyAt: NOW - timeouts.debounceMaxMs, dirtySince: NOW - timeouts.debounceMaxMs };
  const starting = running({ state: "starting" });
  const want = { live: { ...live, healthy: false }, recorded: { state: "starting" }, ...long };
  expect(plan(desired(want), { ...idle, runtime: starting }, timeouts)).toEqual({
    actions: [],
    wakeAt: long.dirtySince + timeouts.rolloutMs,
  });
  const since = { dirtyAt: NOW, dirtySince: NOW - timeouts.rolloutMs };
  expect(actionsOf({ ...want, ...since }, { runtime: starting })).toEqual(["compare-variables"]);
  // Healthy before the older replicas have ended; or it fails, and the change may be what repairs it.
  const healthy = { ...starting, healthySince: new Date(NOW).toISOString() };
  expect(actionsOf(want, { runtime: healthy })).toEqual(["record-status", "compare-variables"]);
  for (const state of ["degraded", "crashed", "stopped"] as const)
    expect(actionsOf({ ...want, recorded: { state } }, { runtime: running({ state }) })).toEqual([
      "compare-variables",
    ]);
});

test("a deployment about to be applied brings the variables along: nothing else is applied before it", () => {
  const dirty = { dirtyAt: NOW - timeouts.debounceMs, dirtySince: NOW - timeouts.debounceMs };
  const image = active({ fromSource: false });
  expect(actionsOf({ live, active: image, ...dirty }, { runtime: running() })).toEqual(["apply"]);
});

test("a status is recorded when it differs from the recorded one, and only then", () => {
  const status = running({ serving: { version: 1, revision: 1 }, url: "http://a.localhost:1" });
  expect(actionsOf({ live }, { runtime: status })).toEqual(["record-status"]);
  const recorded = { state: "running", serving: 1, url: "http://a.localhost:1" };
  expect(actionsOf({ live, recorded }, { runtime: status })).toEqual([]);
  const healthy = { ...status, healthySince: new Date(NOW).toISOString() };
  expect(actionsOf({ live: { ...live, healthy: false }, recorded }, { runtime: healthy })).toEqual([
    "record-status",
  ]);
});

test("a deleted service is torn down whatever else is going on, and a staged one is left alone", () => {
  const busy = { live, active: active({ status: "building" as const }), deleting: true };
  expect(actionsOf(busy, { building: "dep_new", runtime: running() })).toEqual(["stop-build", "tear-down"]);
  expect(actionsOf({ staged: true, active: active() })).toEqual([]);
});

test("an addon is provisioned once, and gets a new password when that was asked for", () => {
  for (const type of ["postgres", "redis"])
    expect(actionsOf({ type, addonState: "provisioning" })).toEqual(["provision-addon"]);
  const ready = { type: "postgres", addonState: "ready" };
  expect(actionsOf(ready, { addon: "shared" })).toEqual([]);
  expect(actionsOf({ ...ready, rotating: true }, { addon: "shared" })).toEqual(["rotate-addon"]);
});

test("the keys of an addon lead through its pooler once that serves, and past it before it is removed", () => {
  const ready = { type: "postgres", addonState: "ready", now: 10_000 };
  const planned = (pooler: Partial<DesiredPooler>, more: Partial<Desired> = {}, poolerPauseMs = 0) => {
    const all = { wanted: false, published: false, made: false, ...pooler };
    const { actions, wakeAt } = plan(
      desired({ ...ready, ...more, pooler: all }),
      { addon: "shared", poolerPauseMs },
      timeouts,
    );
    return [...actions.map((action) => action.do), ...(wakeAt === undefined ? [] : [wakeAt - ready.now])];
  };
  expect(planned({})).toEqual([]);
  // Its pod reports nothing.
  expect(planned({ wanted: true })).toEqual(["ensure-pooler", 5_000]);
  expect(planned({ wanted: true, made: true, until: 50_000 })).toEqual(["ensure-pooler", 5_000]);
  // It has not started for long.
  expect(planned({ wanted: true, made: true }, {}, 60_000)).toEqual([60_000]);
  expect(planned({ made: true }, {}, 60_000)).toEqual(["remove-pooler"]);
  expect(planned({ wanted: true, made: true, published: true })).toEqual([]);
  expect(planned({ made: true, published: true })).toEqual(["withdraw-pooler"]);
  expect(planned({ made: true, until: 50_000 })).toEqual([40_000]);
  expect(planned({ made: true, until: 10_000 })).toEqual(["remove-pooler"]);
  expect(planned({ made: true })).toEqual(["remove-pooler"]);
  // A rotation brings the password to it.
  expect(planned({ wanted: true, made: true, published: true }, { rotating: true })).toEqual([
    "rotate-addon",
    5_000,
  ]);
  expect(planned({ wanted: true }, { addonState: "provisioning" })).toEqual(["provision-addon"]);
  expect(planned({ made: true, published: true }, { staged: true })).toEqual([]);
});

test("an addon that failed for want of something is tried again", () => {
  for (const type of ["postgres", "redis"])
    expect(actionsOf({ type, addonState: "failed" })).toEqual(["provision-addon"]);
});

test("a suspended service keeps its release without replicas, and gets them back afterwards", () => {
  const wanted = { ...live, scale: { replicas: 2, size: "nano" as const } };
  const recorded = { state: "running" };
  const scaled = (replicas: number) => ({ runtime: running({ scale: { replicas, size: "nano" } }) });
  expect(actionsOf({ live: wanted, recorded, suspended: true }, scaled(2))).toEqual(["scale"]);
  expect(actionsOf({ live: wanted, recorded, suspended: true }, scaled(0))).toEqual([]);
  expect(actionsOf({ live: wanted, recorded, suspended: false }, scaled(0))).toEqual(["scale"]);
});

test("of what is scaled by its CPU, the bounds are compared and the number is not, unless it is stopped", () => {
  const autoscaling = { min: 1, max: 5, targetCpuPercent: 70 };
  const scale = { replicas: 1, size: "nano" as const, autoscaling };
  const wanted = { ...live, scale };
  const recorded = { state: "running" };
  const runs = (more: object) => ({ runtime: running({ scale: { ...scale, ...more } }) });
  expect(actionsOf({ live: wanted, recorded }, runs({ replicas: 4 }))).toEqual([]);
  expect(actionsOf({ live: wanted, recorded }, runs({ autoscaling: { ...autoscaling, max: 6 } }))).toEqual([
    "scale",
  ]);
  expect(actionsOf({ live: wanted, recorded }, runs({ autoscaling: undefined }))).toEqual(["scale"]);
  expect(actionsOf({ live: wanted, recorded, suspended: true }, runs({ replicas: 4 }))).toEqual(["scale"]);
  const stopped = { replicas: 0, autoscaling: undefined };
  expect(actionsOf({ live: wanted, recorded, suspended: true }, runs(stopped))).toEqual([]);
  expect(actionsOf({ live: { ...live, scale: { ...scale, replicas: 0 } }, recorded }, runs(stopped))).toEqual(
    [],
  );
});

test("what runs with other replicas or another size than configured is scaled, without a new release", () => {
  const wanted = { ...live, scale: { replicas: 2, size: "nano" as const } };
  const recorded = { state: "running" };
  const want = { live: wanted, recorded };
  expect(actionsOf(want, { runtime: running({ scale: { replicas: 2, size: "nano" } }) })).toEqual([]);
  expect(actionsOf(want, { runtime: running({ scale: { replicas: 1, size: "nano" } }) })).toEqual(["scale"]);
  expect(actionsOf(want, { runtime: running({ scale: { replicas: 2, size: "small" } }) })).toEqual(["scale"]);
  const other = running({ version: 0, scale: { replicas: 1, size: "nano" } });
  expect(actionsOf(want, { runtime: other })).toEqual(["reapply-live"]);
});

test("a release is rolled as often as it was asked for, and by what is applied anyway", () => {
  const recorded = { state: "running" };
  const want = { live: { ...live, rolls: 2 }, recorded };
  expect(actionsOf(want, { runtime: running() })).toEqual(["roll"]);
  expect(actionsOf(want, { runtime: running({ rolls: 1 }) })).toEqual(["roll"]);
  expect(actionsOf(want, { runtime: running({ rolls: 2 }) })).toEqual([]);
  expect(actionsOf(want, { runtime: running({ version: 0, rolls: 1 }) })).toEqual(["reapply-live"]);
  const changed = { ...want, dirtyAt: NOW - timeouts.debounceMs, dirtySince: NOW - timeouts.debounceMs };
  expect(actionsOf(changed, { runtime: running() })).toEqual(["compare-variables"]);
  const soon = plan(desired({ ...want, dirtyAt: NOW }), { ...idle, runtime: running() }, timeouts);
  expect(soon).toEqual({ actions: [{ do: "roll" }], wakeAt: NOW + timeouts.debounceMs });
  const applying = { ...want, active: active({ fromSource: false }) };
  expect(actionsOf(applying, { runtime: running() })).toEqual(["apply"]);
});

test("a deployment waits for addons that are being created, and no longer than it may", () => {
  for (const one of [active({ status: "built" }), active({ fromSource: false })]) {
    const waiting = desired({ active: { ...one, applyStartedAt: NOW, waitsUntil: NOW + 60_000 } });
    expect(plan(waiting, idle, timeouts)).toEqual({ actions: [], wakeAt: NOW + 60_000 });
    expect(actionsOf({ active: { ...one, waitsUntil: NOW } })).toEqual(["apply"]);
    expect(actionsOf({ active: { ...one, waitsUntil: null } })).toEqual(["apply"]);
    const late = { ...one, applyStartedAt: NOW - timeouts.applyMs, waitsUntil: NOW + 60_000 };
    expect(failure({ active: late })).toBe("apply apply_deadline_exceeded");
  }
});

test("a redis addon whose server is away or has another size is brought back to what it should be", () => {
  const ready = { type: "redis", addonState: "ready", size: "nano", recorded: { usageAt: 5 } };
  const usage = [{ at: 5, replicas: 1 }];
  const addon = { serviceId: "svc_a", type: "redis" as const, running: true, size: "nano" as const, usage };
  expect(actionsOf(ready, { addon })).toEqual([]);
  expect(actionsOf(ready)).toEqual(["provision-addon"]);
  expect(actionsOf({ ...ready, size: "small" }, { addon })).toEqual(["provision-addon"]);
  const two = { ...addon, replicas: 2 };
  expect(actionsOf({ ...ready, replicas: 2 }, { addon: { ...two, replicas: 1 } })).toEqual([
    "provision-addon",
  ]);
  expect(actionsOf({ ...ready, replicas: 2 }, { addon: two })).toEqual([]);
  expect(actionsOf(ready, { addon: two })).toEqual(["provision-addon"]);
  const ended = { ...addon, running: false, usage: [...addon.usage, { at: 9, replicas: 0 }] };
  expect(actionsOf(ready, { addon: ended })).toEqual(["record-addon", "provision-addon"]);
  const problem = { state: "degraded" as const, message: "Its volume is not there yet." };
  const stuck = { ...addon, running: false, problem };
  expect(actionsOf(ready, { addon: stuck })).toEqual(["record-addon", "provision-addon"]);
  const recordedBefore = { ...ready, recorded: { ...ready.recorded, message: problem.message } };
  expect(actionsOf(recordedBefore, { addon: stuck })).toEqual(["provision-addon"]);
  expect(actionsOf(recordedBefore, { addon })).toEqual(["record-addon"]);
});

const moment = fc.integer({ min: NOW - 3_600_000, max: NOW });
const anyActive = fc.record({
  id: fc.constant("dep_new"),
  version: fc.integer({ min: 2, max: 4 }),
  status: fc.constantFrom("queued" as const, "building" as const, "built" as const),
  fromSource: fc.boolean(),
  createdAt: moment,
  buildStartedAt: fc.option(moment),
  applyStartedAt: fc.option(moment),
  waitsUntil: fc.option(fc.integer({ min: NOW - 60_000, max: NOW + 60_000 })),
});

test("no deployment waits without an action, a build in progress or a time to plan again", () => {
  const world = fc.record({ found: anyActive, here: fc.boolean() });
  fc.assert(
    fc.property(world, ({ found, here }) => {
      const building = here && found.status === "building" ? found.id : undefined;
      const next = plan(desired({ active: found }), { building }, timeouts);
      const acts = next.actions.some((action) => action.do !== "stop-build");
      expect(acts || (next.wakeAt !== undefined && next.wakeAt > NOW)).toBe(true);
    }),
  );
});

test("what has not been read is not gone: a release stays as it is, and a removal waits", () => {
  const unread = { unread: true };
  expect(plan(desired({ live }), { ...idle, ...unread }, timeouts)).toEqual({
    actions: [],
    wakeAt: NOW + 5_000,
  });
  expect(actionsOf({ live: { ...live, healthy: false }, dirtyAt: NOW - 60_000 }, unread)).toEqual([]);
  const deleting = plan(desired({ live, deleting: true }), { ...idle, ...unread }, timeouts);
  expect(deleting).toEqual({ actions: [], wakeAt: NOW + 5_000 });
  expect(actionsOf({ live, deleting: true, type: "postgres" }, unread)).toEqual(["tear-down"]);
  // What users ask for is read by whatever does it.
  expect(actionsOf({ live, active: active() }, unread)).toEqual(["admit-builds"]);
  expect(actionsOf({ live, active: active({ status: "built" }) }, unread)).toEqual(["apply"]);
});
