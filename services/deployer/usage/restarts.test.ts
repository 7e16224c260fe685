import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { eventually } from "../../kit/testing/testing.ts";
import { visit } from "../testing/testing.ts";
import { startUsagePlatform, type UsagePlatform } from "./testing.ts";

let berth: UsagePlatform;
beforeAll(async () => {
  berth = await startUsagePlatform();
});
afterEach(() => berth?.deployer.end("SIGTERM"));
afterAll(() => berth?.stop());

test("an app that outlives a killed deployer is one interval, to the end", async () => {
  await berth.deployer.run();
  const { id, path, untilService, catalog, url } = await berth.webService();
  const [started] = await berth.untilEvents(id, "Started");
  const { text: pid } = await visit(url);
  for (let kill = 0; kill < 2; kill++) {
    await berth.deployer.end("SIGKILL");
    await berth.deployer.run();
    await untilService(path, "running");
    await eventually("the same process answers", async () => (await visit(url)).text === pid);
  }
  await catalog.deleteService({ ...path, confirmImpact: true });
  const [, stopped] = await berth.untilEvents(id, "Started", "Stopped");
  expect([stopped!.intervalId, stopped!.seq]).toEqual([started!.intervalId, 1]);
});

test("an app that dies with the deployer was paid for until that second, not until the next start", async () => {
  await berth.deployer.run();
  const { id, url } = await berth.webService();
  await berth.untilEvents(id, "Started");
  const { text: pid } = await visit(url);
  await berth.deployer.end("SIGKILL");
  process.kill(Number(pid), "SIGKILL");
  const died = Date.now();
  await berth.deployer.run();
  const [first, stopped, again] = await berth.untilEvents(id, "Started", "Stopped", "Started");
  expect(stopped!.at).toBeLessThanOrEqual(died);
  expect(stopped!.at).toBeGreaterThanOrEqual(Math.max(first!.at, died - 2_000));
  expect(again!.at).toBeGreaterThan(died);
});

test("a stop of the platform ends the interval, and the next start begins another", async () => {
  await berth.deployer.run();
  const { id } = await berth.webService();
  await berth.untilEvents(id, "Started");
  const asked = Date.now();
  await berth.deployer.end("SIGTERM");
  const ended = Date.now();
  await berth.deployer.run();
  const [, stopped, again] = await berth.untilEvents(id, "Started", "Stopped", "Started");
  expect(stopped!.at).toBeGreaterThanOrEqual(asked);
  expect(stopped!.at).toBeLessThanOrEqual(ended);
  expect(again!.at).toBeGreaterThan(ended);
});
