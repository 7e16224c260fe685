import { mkdirSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { delegateControlGroups, openControlGroups } from "./control-groups.ts";

function makeFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "berth-groups-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  return folder;
}

test("a machine without control groups of version 2 has none for apps, and says so", () => {
  const root = makeFolder();
  expect(() => delegateControlGroups(root)).toThrow(/is not of cgroup v2|only Linux/);
});

test("groups that an earlier process left are removed, and one that is gone has no limits and ran out of nothing", () => {
  const folder = makeFolder();
  mkdirSync(join(folder, "left"));
  const groups = openControlGroups(folder);
  groups.limit("left", { memory: 256, cpu: 250 });
  expect([
    groups.ranOutOfMemory("left"),
    groups.enter("new", { memory: 256, cpu: 250 }, ["true"])[0],
  ]).toEqual([false, "/bin/sh"]);
  writeFileSync(join(folder, "new", "memory.events"), "oom 3\noom_kill 0\n");
  expect(groups.ranOutOfMemory("new")).toBe(false);
  expect(readFileSync(join(folder, "new", "cpu.max"), "utf8")).toBe("25000 100000");
});
