import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { InternalService } from "../../../proto/gen/berth/identity/v1/internal_pb.ts";
import { createLog } from "../../kit/log.ts";
import { serviceClient } from "../../kit/rpc/client.ts";
import { holdCommits } from "../../kit/testing/hold-commits.ts";
import { eventually, testKeys } from "../../kit/testing/testing.ts";
import { createNotify } from "../notices/notify.ts";
import { createDirectory, type Recipient } from "../recipients/directory.ts";
import { startNotifications, type TestNotifications } from "../testing.ts";
import type { Measure } from "./measure.ts";
import { nodeWatch } from "./watch.ts";

const MINUTE = 60_000;

let berth: TestNotifications;
let people: Record<"owner" | "other" | "editor" | "stranger", Recipient>;
let folder: string;

beforeAll(async () => {
  berth = await startNotifications();
  const [owner, other, editor, stranger] = [berth.user(), berth.user(), berth.user(), berth.user()];
  people = { owner, other, editor, stranger };
  berth.neighbours.operators.accountId = berth.account(
    [owner, "owner"],
    [other, "owner"],
    [editor, "editor"],
  );
  berth.account([stranger, "owner"]);
  folder = await mkdtemp(join(tmpdir(), "berth-capacity-"));
});
afterAll(async () => {
  await berth?.stop();
  if (folder) await rm(folder, { recursive: true });
});

/** Returns what a user was notified of about a node, oldest first. */
async function notified({ userId }: Recipient, node: string) {
  const { data } = await berth.as(userId).listNotifications({ limit: 100 });
  return data.filter(({ metadata }) => metadata.node === node).toReversed();
}
const kindsOf = async (user: Recipient, node: string) =>
  (await notified(user, node)).map(({ kind, metadata }) => `${kind} ${metadata.level}`);

/** The watch of a process on a node whose disk and memory the test sets, in percent in use. */
function watch(node: string) {
  const used = { disk: 10, memory: 10 };
  const of = (percent: number): Measure => ({ total: 1000, left: 1000 - percent * 10 });
  const settings = { watchedFolders: [folder], nodeName: node, diskWarnPercent: 85, diskUrgentPercent: 95 };
  const identity = { url: berth.neighbours.url, keys: testKeys, name: "notifications" };
  const directory = createDirectory(serviceClient(InternalService, identity));
  const log = createLog("test", "silent");
  const notify = createNotify({ mails: true, now: () => berth.clock.ms });
  const deps = { pool: berth.pool, log, notify, directory, now: () => berth.clock.ms };
  const measures = {
    measureDisk: async () => ({ ...of(used.disk), folders: [folder] }),
    measureMemory: async () => of(used.memory),
  };
  return { used, check: nodeWatch({ ...deps, ...settings, memoryWarnPercent: 10 }, measures) };
}

test("owners of the first account hear once that a disk fills up, that it got worse, and that it is well: nobody else", async () => {
  const node = "filling";
  const [one, another] = [watch(node), watch(node)];
  const at = async (disk: number) => {
    one.used.disk = another.used.disk = disk;
    await Promise.all([one.check(), another.check(), one.check(), another.check()]);
  };
  await at(80);
  expect(await kindsOf(people.owner, node)).toEqual([]);
  for (const disk of [86, 84, 90, 96, 93, 97, 40]) await at(disk);
  const expected = ["node.disk_filling low", "node.disk_filling urgent", "node.recovered ok"];
  expect(await kindsOf(people.owner, node)).toEqual(expected);
  expect(await kindsOf(people.other, node)).toEqual(expected);
  expect(await kindsOf(people.editor, node)).toEqual([]);
  expect(await kindsOf(people.stranger, node)).toEqual([]);
  await at(86);
  expect(await kindsOf(people.owner, node)).toEqual([...expected, "node.disk_filling low"]);
  const titles = (await notified(people.owner, node)).map(({ title }) => title);
  expect(titles).toEqual([
    `The disk of ${node} is 86 % full`,
    `The disk of ${node} is 96 % full`,
    `The disk of ${node} is sufficient again`,
    `The disk of ${node} is 86 % full`,
  ]);
  const subjects = () => berth.box.for(people.owner.email).map(({ headers }) => headers.get("subject")!);
  await eventually("each is mailed", async () => subjects().length >= titles.length);
  expect(subjects().toSorted()).toEqual(titles.toSorted());
  expect(berth.box.for(people.editor.email)).toEqual([]);
});

test("memory that is short for a moment is none, one that stays short is announced, and its end", async () => {
  const node = "short";
  const { used, check } = watch(node);
  const pass = async (memory: number, minutes: number) => {
    used.memory = memory;
    for (let minute = 0; minute < minutes; minute++) {
      await check();
      berth.clock.ms += MINUTE;
    }
    await check();
  };
  await pass(95, 2);
  await pass(50, 1);
  await pass(95, 2);
  expect(await kindsOf(people.owner, node)).toEqual([]);
  await pass(95, 1);
  expect(await kindsOf(people.owner, node)).toEqual(["node.memory_low low"]);
  await pass(80, 2);
  await pass(95, 5);
  expect(await kindsOf(people.owner, node)).toEqual(["node.memory_low low"]);
  await pass(80, 3);
  expect(await kindsOf(people.owner, node)).toEqual(["node.memory_low low", "node.recovered ok"]);
});

test("while identity is away nothing is announced, and nothing is lost", async () => {
  const node = "apart";
  const { used, check } = watch(node);
  used.disk = 90;
  berth.neighbours.proxy.shut();
  await expect(check()).rejects.toThrow();
  await berth.neighbours.proxy.open();
  await eventually("identity answers again", () =>
    check().then(
      () => true,
      () => false,
    ),
  );
  expect(await kindsOf(people.owner, node)).toEqual(["node.disk_filling low"]);
});

describe("processes that measure the disk of this machine", () => {
  const node = hostname();
  const low = { DISK_WARN_PERCENT: "1", MEMORY_WARN_PERCENT: "0" };

  const watching = async (more: Record<string, string>) => {
    const watched = { WATCHED_FOLDERS: JSON.stringify([folder, join(folder, "missing")]) };
    const process = await berth.process({ ...watched, ...more });
    onTestFinished(async () => void (await process.end("SIGKILL")));
    return process;
  };

  test.each(["kept", "lost"] as const)(
    "killed at the commit, which is %s, beside another one: announced once",
    async (outcome) => {
      await berth.pool.query("delete from capacity_levels");
      await berth.pool.query("delete from notifications");
      await mkdir(join(folder, "builds"), { recursive: true });
      const held = await holdCommits(berth, "insert", "capacity_levels", "new.level <> 'ok'");
      const killed = await watching(low);
      await held.reached();
      await killed.end("SIGKILL");
      await held.release(outcome);
      const others = await Promise.all([watching(low), watching(low)]);
      await eventually("it is announced", async () => (await kindsOf(people.owner, node)).length > 0);
      await Promise.all(others.map((one) => one.end("SIGTERM")));
      expect(await kindsOf(people.owner, node)).toEqual(["node.disk_filling low"]);
    },
  );

  test("started again with a threshold that is not reached, they announce that it is sufficient", async () => {
    await Promise.all([0, 1].map(() => watching({ DISK_WARN_PERCENT: "100" })));
    await eventually("it is announced", async () => (await kindsOf(people.owner, node)).length > 1);
    expect(await kindsOf(people.owner, node)).toEqual(["node.disk_filling low", "node.recovered ok"]);
  });
});
