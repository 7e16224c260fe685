import type { V1Pod } from "@kubernetes/client-node";
import { describe, expect, test } from "vitest";
import { PASSWORD, REPLICATION, RESTORED, SIZE } from "../server/annotations.ts";
import { nextStep, type Server, type Situation, type Step } from "./next-step.ts";
import { parseReplication, type Replication } from "./replication.ts";

const NOW = Date.parse("2030-01-01T00:10:00Z");
const annotations = { [PASSWORD]: "m", [SIZE]: "nano", [REPLICATION]: "r" };
const template = { annotations, image: "redis:8.2" };
const ago = (seconds: number) => new Date(NOW - seconds * 1_000);

function pod(
  uid: string,
  more: { ready?: boolean; since?: number; leaving?: boolean; own?: object } = {},
): V1Pod {
  const { ready = true, since = 120, leaving = false, own = {} } = more;
  return {
    metadata: {
      ...{ uid, name: uid, creationTimestamp: ago(3_600), annotations: { ...annotations, ...own } },
      ...(leaving && { deletionTimestamp: ago(since - 60), deletionGracePeriodSeconds: 60 }),
    },
    spec: { containers: [{ name: "redis", image: "redis:8.2" }] },
    status: {
      conditions: [
        {
          type: "Ready",
          status: ready || leaving ? "True" : "False",
          lastTransitionTime: ago(leaving ? 900 : since),
        },
      ],
    },
  };
}

const master: Replication = { role: "master", isReading: false, linked: false };
const standby: Replication = { role: "slave", isReading: false, linked: true };
const unlinked = (seconds?: number): Replication => ({
  ...{ role: "slave", isReading: false, linked: false },
  ...(seconds !== undefined && { unlinkedSeconds: seconds }),
});
const serving: Server = { pod: pod("a"), says: master };
const inSync: Server = { pod: pod("b"), says: standby };

/** What follows where the first server is the primary. */
const after = (first: Server, second: Server, more: Partial<Situation> = {}) =>
  nextStep({ primary: 0, servers: [first, second], template, single: false, now: NOW, ...more });

const APPOINT: Step = { do: "appoint", primary: 1 };
const away = (seconds: number, more: Parameters<typeof pod>[1] = {}): Server => ({
  pod: pod("a", { ready: false, since: seconds, ...more }),
});

test("nothing is done with a primary that serves and a standby in sync; one that is not yet is waited for", () => {
  expect(after(serving, inSync)).toEqual({ do: "nothing" });
  for (const second of [{}, { pod: pod("b"), says: unlinked(3) }, { pod: pod("b", { ready: false }) }])
    expect(after(serving, second)).toEqual({ do: "wait" });
});

describe("the standby of a primary that is away", () => {
  test.each<[string, Server, Server, boolean]>([
    ["takes over after half a minute", away(31), inSync, true],
    ["does not before", away(29), inSync, false],
    [
      "takes over where the primary was deleted, and does not come back",
      away(31, { leaving: true }),
      inSync,
      true,
    ],
    ["does not where it is being started again", away(29, { leaving: true }), inSync, false],
    [
      "takes over from one that reads its data for long",
      { ...away(31), says: { ...master, isReading: true } },
      inSync,
      true,
    ],
    ["does not from one that answers", { ...away(600), says: master }, inSync, false],
    [
      "takes over when it lost it at about that time",
      away(100),
      { pod: pod("b"), says: unlinked(150) },
      true,
    ],
    ["does not when it lost it long before", away(100), { pod: pod("b"), says: unlinked(161) }, false],
    ["does not when it has never been in sync", away(600), { pod: pod("b"), says: unlinked() }, false],
    [
      "does not while it gets all data",
      away(600),
      { pod: pod("b"), says: { ...standby, isReading: true } },
      false,
    ],
    ["does not when it does not answer", away(600), { pod: pod("b") }, false],
    [
      "does not with another password",
      away(600),
      { pod: pod("b", { own: { [PASSWORD]: "old" } }), says: standby },
      false,
    ],
  ])("%s", (_, first, second, takesOver) => {
    expect(after(first, second).do === "appoint").toBe(takesOver);
  });

  test("does not with the data of before a restore, and gets those of the restored one", () => {
    const restored = { ...template, annotations: { ...annotations, [RESTORED]: "x" } };
    const own = { [RESTORED]: "x" };
    expect(after(serving, inSync, { template: restored })).toEqual({ do: "restart", pod: serving.pod });
    const reading = {
      pod: pod("a", { ready: false, since: 300, own }),
      says: { ...master, isReading: true },
    };
    expect(after(reading, inSync, { template: restored })).toEqual({ do: "wait" });
    const done = { pod: pod("a", { own }), says: master };
    expect(after(done, inSync, { template: restored })).toEqual({ do: "restart", pod: inSync.pod });
  });
});

describe("once the second one is appointed", () => {
  const appointed = (first: Server, second: Server) => after(first, second, { primary: 1, replaced: "a" });
  const lost = { pod: pod("b", { ready: false }), says: unlinked(40) };

  test("the pod of the former primary is deleted before it becomes the primary", () => {
    expect(appointed(away(40), lost)).toEqual({ do: "restart", pod: away(40).pod });
    expect(appointed(away(40, { leaving: true }), lost)).toEqual({ do: "promote" });
    expect(appointed({}, lost)).toEqual({ do: "promote" });
    expect(appointed({ pod: pod("another") }, lost)).toEqual({ do: "promote" });
  });

  test("a former primary that serves hands over, as soon as the other one has all it has", () => {
    expect(appointed(serving, inSync)).toEqual({ do: "hand-over" });
    expect(appointed(serving, lost)).toEqual({ do: "wait" });
    expect(appointed({ pod: pod("a"), says: standby }, { pod: pod("b"), says: master })).toEqual({
      ...{ do: "restart", pod: serving.pod },
    });
  });

  test("another one that takes itself for the primary becomes its standby", () => {
    const second = { pod: pod("b"), says: master };
    expect(appointed({ pod: pod("new"), says: master }, second)).toEqual({ do: "follow" });
  });
});

test("a change restarts the standby first, then they change places, then the former primary is restarted", () => {
  const next = { ...template, annotations: { ...annotations, [PASSWORD]: "next" } };
  const own = { [PASSWORD]: "next" };
  expect(after(serving, inSync, { template: next })).toEqual({ do: "restart", pod: inSync.pod });
  const leaving = { pod: pod("b", { leaving: true, since: 1 }) };
  expect(after(serving, leaving, { template: next })).toEqual({ do: "wait" });
  const second = { pod: pod("b", { own }), says: standby };
  expect(after(serving, { ...second, says: unlinked() }, { template: next })).toEqual({
    do: "restart",
    pod: serving.pod,
  });
  expect(after(serving, second, { template: next })).toEqual(APPOINT);
  const changed = { primary: 1 as const, replaced: "a", template: next };
  const second2 = { ...second, says: master };
  expect(after({ pod: pod("a"), says: standby }, second2, changed)).toEqual({
    do: "restart",
    pod: serving.pod,
  });
  expect(after({ pod: pod("c", { own }), says: standby }, second2, changed)).toEqual({ do: "nothing" });
});

test("a standby that has just been started is waited for before the primary is restarted without it", () => {
  const next = { ...template, image: "redis:8.3" };
  const fresh = pod("b");
  fresh.metadata!.creationTimestamp = ago(599);
  fresh.spec!.containers[0]!.image = "redis:8.3";
  expect(after(serving, { pod: fresh, says: unlinked() }, { template: next })).toEqual({ do: "wait" });
});

test("a server that had no standby before is restarted in its place", () => {
  const alone = { pod: pod("a", { own: { [REPLICATION]: undefined } }) };
  expect(after(alone, {})).toEqual({ do: "restart", pod: alone.pod });
});

test("the second server is removed, once the first one is the primary", () => {
  expect(after(serving, inSync, { single: true })).toEqual({ do: "remove-standby" });
  const [first, second] = [
    { pod: pod("a"), says: standby },
    { pod: pod("b"), says: master },
  ];
  expect(after(first, second, { single: true, primary: 1 })).toEqual({ do: "appoint", primary: 0 });
  expect(after({ ...first, says: unlinked(5) }, second, { single: true, primary: 1 })).toEqual({
    do: "wait",
  });
  expect(after(serving, inSync, { single: true, replaced: "b" })).toEqual({ do: "remove-standby" });
});

test("what a server says of its replication is read from INFO", () => {
  const read = (...lines: string[]) => parseReplication(["# Replication", ...lines, ""].join("\r\n"));
  expect(read("role:master", "loading:0")).toEqual(master);
  expect(read("role:master", "loading:1").isReading).toBe(true);
  const down = ["role:slave", "master_link_status:down"];
  expect(read("role:slave", "master_link_status:up", "master_sync_in_progress:0")).toEqual(standby);
  expect(read(...down, "master_link_down_since_seconds:7")).toEqual(unlinked(7));
  expect(read(...down, "master_link_down_since_seconds:-1")).toEqual(unlinked());
  expect(read(...down, "master_sync_in_progress:1").isReading).toBe(true);
});
