import { existsSync } from "node:fs";
import { mkdtemp, rm, statfs, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { createPatience, type Level, levelOf } from "./level.ts";
import { measureDisk, toLargest } from "./measure.ts";
import { noticeText } from "./texts.ts";

test("a resource that goes up and down around a threshold is announced once, and again when it gets worse", () => {
  const thresholds = { low: 85, urgent: 95 };
  const measured = [84, 85, 84, 86, 80, 96, 90, 96, 81, 79, 84, 97, 12];
  const announced: Level[] = [];
  let level: Level = "ok";
  for (const used of measured) {
    const next = levelOf(level, used, thresholds);
    if (next !== level) announced.push(next);
    level = next;
  }
  expect(announced).toEqual(["low", "urgent", "ok", "urgent", "ok"]);
});

test("a threshold that is off announces nothing, and leaves the other one", () => {
  const off = { low: Infinity, urgent: Infinity };
  expect(levelOf("ok", 100, off)).toBe("ok");
  expect(levelOf("urgent", 97, off)).toBe("urgent");
  expect(levelOf("ok", 94, { low: Infinity, urgent: 95 })).toBe("ok");
  expect(levelOf("ok", 95, { low: Infinity, urgent: 95 })).toBe("urgent");
  expect(levelOf("urgent", 94, { low: Infinity, urgent: 95 })).toBe("urgent");
  expect(levelOf("urgent", 89, { low: Infinity, urgent: 95 })).toBe("ok");
});

test("a change counts once it has been wanted for the whole time", () => {
  const lasts = createPatience(180);
  expect(lasts("low", 0)).toBe(false);
  expect(lasts("low", 179)).toBe(false);
  expect(lasts(undefined, 180)).toBe(false);
  expect(lasts("low", 181)).toBe(false);
  expect(lasts("low", 361)).toBe(true);
  expect(createPatience(0)("low", 5)).toBe(true);
});

test.runIf(existsSync("/dev/shm"))(
  "a folder that is in another one, and on a disk of its own, is measured, and one on the same disk is not named twice",
  async () => {
    const inside = await mkdtemp("/dev/shm/berth-capacity-");
    onTestFinished(() => rm(inside, { recursive: true }));
    const { bavail, bsize } = await statfs(inside);
    await writeFile(join(inside, "full"), Buffer.alloc(Math.min((bavail * bsize) / 2, 16 * 1024 ** 2)));
    const disk = await measureDisk([inside, "/dev", "/dev/shm"]);
    expect(disk?.folders).toEqual(["/dev/shm"]);
    expect(disk?.left).toBeLessThan(disk?.total ?? 0);
  },
);

test("what uses most of a disk is named, not the folder around it, and nothing that is small", () => {
  const lines = [
    "400\t/data/deployer/store",
    "10\t/data/deployer/tmp",
    "420\t/data/deployer",
    "300\t/data/postgres/data",
    "300\t/data/postgres",
    "90\t/data/nats/a",
    "90\t/data/nats/b",
    "180\t/data/nats",
    "20\t/data/with a space",
    "1000\t/data",
    "du: cannot read directory",
  ].join("\n");
  expect(toLargest(lines, ["/data"], 50 * 1024)).toEqual([
    { path: "/data/deployer/store", bytes: 400 * 1024 },
    { path: "/data/postgres/data", bytes: 300 * 1024 },
    { path: "/data/nats", bytes: 180 * 1024 },
  ]);
  expect(toLargest(lines, ["/data"], 1024 ** 2)).toEqual([]);
  expect(toLargest("", ["/data"], 0)).toEqual([]);
});

test("a notice says how much is left, what uses most, and the next command of the place", () => {
  const measure = { total: 100 * 1024 ** 3, left: 4.5 * 1024 ** 3 };
  const parts = [{ path: "/data/postgres", bytes: 500 * 1024 ** 2 }];
  const change = { node: "box", resource: "disk", to: "urgent", measure } as const;
  const here = noticeText(change, { folders: ["/data"], parts, onCluster: false });
  expect(here.title).toBe("The disk of box is 95 % full");
  expect(here.body).toMatch(
    /^Make room now\. 4\.5 GiB of 100\.0 GiB are left\. Most is used by \/data\/postgres \(500 MiB\)\..* du -xh -d 2 \/data \| sort -h \| tail$/,
  );
  const there = noticeText(change, { folders: ["/tmp"], parts: [], onCluster: true });
  expect(there.body).toMatch(/sudo berth-server doctor$/);
  expect(there.body).not.toContain("/tmp");
});
