import { globSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterEach, describe, expect, test } from "vitest";
import { answeringApp } from "../../../../test/contracts/ports/runtime/apps.ts";
import { isRunning, releaseOf, statusOf } from "../../../../test/contracts/ports/runtime/harness.ts";
import { findProcessesOf, startedOf } from "../../shared/process-tree.ts";
import { artifact, cleanUp, forkRuntime, makeRoot, openLocal, pidApp } from "./testing.ts";

afterEach(cleanUp);

describe("when Berth is killed", () => {
  test("apps go on and are adopted: same process, no gap, log complete", async () => {
    const places = makeRoot();
    const one = releaseOf(artifact, `${pidApp} let n = 0; setInterval(() => console.log("tick", ++n), 20);`);
    const first = await forkRuntime(places);
    await first.call("apply", one);
    const before = await statusOf(first.runtime, one.serviceId, isRunning);
    const pid = (await first.fetch(before.url!, "/")).body;
    await first.kill();
    expect(startedOf(Number(pid))).toBeDefined();

    const second = await forkRuntime(places);
    const after = await second.call("status", one.serviceId);
    expect({ ...after, url: "" }).toEqual({ ...before, url: "" });
    expect((await second.fetch(after.url!, "/")).body).toBe(pid);
    await second.call("apply", one);
    const ticks = async (): Promise<number[]> => {
      const { lines } = await second.call("logs", {
        serviceId: one.serviceId,
        stream: "stdout",
        limit: 1000,
      });
      return lines
        .reverse()
        .slice(1)
        .map((line: { message: string }) => Number(line.message.split(" ")[1]));
    };
    const seen = await ticks();
    while ((await ticks()).length < seen.length + 10) await delay(20);
    const all = await ticks();
    expect(all).toEqual(Array.from({ length: all.length }, (_, n) => n + 1));
    expect((await second.fetch(after.url!, "/")).body).toBe(pid);
    await second.call("remove", one.serviceId);
    expect(startedOf(Number(pid))).toBeUndefined();
  });

  test("an app that died meanwhile is restarted with its variables, and its last output is kept", async () => {
    const places = makeRoot();
    const one = releaseOf(artifact, answeringApp, { env: { ANSWER: "as before" } });
    const first = await forkRuntime(places);
    await first.call("apply", one);
    const { url } = await statusOf(first.runtime, one.serviceId, isRunning);
    await first.kill();
    const app = findProcessesOf(places.folder);
    expect(app.length).toBeGreaterThan(0);
    for (const { pid } of app) process.kill(pid, "SIGKILL");
    while (app.some(({ pid, started }) => startedOf(pid) === started)) await delay(10);

    const second = await forkRuntime(places);
    const status = await statusOf(second.runtime, one.serviceId, isRunning);
    expect((await second.fetch(status.url!, "/")).body).toBe("as before");
    expect(new URL(status.url!).hostname).toBe(new URL(url!).hostname);
    const { lines } = await second.call("logs", { serviceId: one.serviceId, limit: 10 });
    expect(lines.filter((line: { message: string }) => line.message.startsWith("listening"))).toHaveLength(2);
    await second.stop();
  });

  test("at random moments of a roll-over, exactly the wanted processes remain", {
    timeout: 300_000,
  }, async () => {
    const places = makeRoot();
    const one = releaseOf(artifact, pidApp, { replicas: 2 });
    for (let version = 1; version <= 12; version++) {
      const killed = await forkRuntime(places);
      await killed.call("apply", { ...one, version });
      await delay(version * 17);
      await killed.kill();
    }
    const last = await forkRuntime(places);
    await last.call("apply", { ...one, version: 12 });
    const status = await statusOf(last.runtime, one.serviceId, isRunning);
    expect(status.version).toBe(12);
    while (findProcessesOf(places.folder).length !== 2) await delay(50);
    const pids = findProcessesOf(places.folder).map(({ pid }) => String(pid));
    for (let n = 0; n < 6; n++) expect(pids).toContain((await last.fetch(status.url!, "/")).body);
    while (globSync(join(places.folder, "services/*/instances/*")).length !== 2) await delay(50);
    await last.stop();
  });

  test("processes whose records were deleted under them are ended", async () => {
    const places = makeRoot();
    const one = releaseOf(artifact, pidApp);
    const first = await forkRuntime(places);
    await first.call("apply", one);
    await statusOf(first.runtime, one.serviceId, isRunning);
    await first.kill();
    await rm(places.folder, { recursive: true });
    expect(findProcessesOf(places.folder)).not.toEqual([]);
    const second = await forkRuntime(places);
    expect(findProcessesOf(places.folder)).toEqual([]);
    expect(await second.call("list")).toEqual([]);
  });

  test("a second Berth on the same folder is refused while the first lives, and not after", async () => {
    const places = makeRoot();
    const first = await forkRuntime(places);
    await expect(openLocal({ ...places })).rejects.toMatchObject({ code: "runtime_in_use" });
    await first.kill();
    await (await openLocal({ ...places })).close();
  });
});
