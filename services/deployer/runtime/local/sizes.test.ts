import { mkdtempSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { isRunning, releaseOf, statusOf } from "../../../../test/contracts/ports/runtime/harness.ts";
import { openControlGroups } from "../../../kit/process/control-groups.ts";
import { makeGroupsFolder } from "../../../kit/testing/control-groups.ts";
import { artifact, cleanUp, cleanups, logged, openLocal, pidApp } from "./testing.ts";

const MIB = 1024 ** 2;

afterEach(cleanUp);

test("an app is started in a control group with the limits of its size, and another size changes them at once", async () => {
  // Plain files in place of the kernel's: what is written to them is the same.
  const folder = mkdtempSync(join(tmpdir(), "berth-groups-"));
  cleanups.push(() => rm(folder, { recursive: true }));
  const { runtime, close } = await openLocal({ groups: openControlGroups(folder) });
  cleanups.push(close);
  const one = releaseOf(artifact, pidApp, { size: "small" });
  await runtime.apply(one);
  await statusOf(runtime, one.serviceId, isRunning);
  const [group = ""] = readdirSync(folder);
  const read = (file: string) => readFileSync(join(folder, group, file), "utf8").trim();
  const [born] = await logged(runtime, one.serviceId);
  expect(`born ${read("cgroup.procs")}`).toBe(born);
  expect([read("memory.max"), read("cpu.max"), read("memory.oom.group"), read("pids.max")]).toEqual([
    String(512 * MIB),
    "50000 100000",
    "1",
    "1024",
  ]);

  await runtime.scale(one.serviceId, one.version, { replicas: 1, size: "nano" });
  expect([read("memory.max"), read("cpu.max")]).toEqual([String(256 * MIB), "25000 100000"]);

  writeFileSync(join(folder, group, "memory.events"), "low 0\noom 1\noom_kill 1\noom_group_kill 1\n");
  process.kill(Number(read("cgroup.procs")), "SIGKILL");
  const { message } = await statusOf(runtime, one.serviceId, ({ restarts }) => restarts > 0);
  expect(message).toContain("it used more memory than its size nano allows (256 MiB)");
});

describe.skipIf(!makeGroupsFolder)("held by the kernel", () => {
  const HUNGRY = "const held = []; setInterval(() => held.push(Buffer.alloc(16 * 1024 ** 2, 1)), 5);";

  async function openHeld() {
    const { folder, remove } = makeGroupsFolder!();
    cleanups.push(async () => remove()); // fails while a group is left in it
    const opened = await openLocal({ groups: openControlGroups(folder) });
    cleanups.push(opened.close);
    return opened;
  }

  test("an app that needs more memory than its size has is killed alone, and its status says why", async () => {
    const { runtime, artifact } = await openHeld();
    const modest = releaseOf(artifact, pidApp, { size: "nano" });
    const hungry = releaseOf(artifact, HUNGRY, { size: "nano", type: "worker", serviceId: "svc_hungry" });
    await runtime.apply(modest);
    await statusOf(runtime, modest.serviceId, isRunning);
    await runtime.apply(hungry);
    const { message } = await statusOf(runtime, hungry.serviceId, ({ restarts }) => restarts > 0);
    expect(message).toContain("it used more memory than its size nano allows (256 MiB)");
    expect(await statusOf(runtime, modest.serviceId, isRunning)).toMatchObject({ restarts: 0 });
    await Promise.all([modest, hungry].map(({ serviceId }) => runtime.remove(serviceId)));
  });

  test("a run that needs more memory fails, and says why", async () => {
    const { runtime, artifact } = await openHeld();
    const release = releaseOf(artifact, HUNGRY, { size: "nano", type: "worker" });
    const { serviceId, environmentId } = release;
    const place = { name: "run-hungry", serviceId, environmentId };
    await runtime.runs.start({ name: place.name, release, deadlineSeconds: 60 });
    await expect
      .poll(() => runtime.runs.status(place), { timeout: 20_000 })
      .toEqual({
        state: "failed",
        exitCode: 137,
        message: "It needed more memory than the service's size allows.",
      });
    await runtime.runs.remove(place);
  });
});
