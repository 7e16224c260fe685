import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, inject, test } from "vitest";
import { newId } from "../../kit/ids.ts";
import { actAs } from "../testing/testing.ts";
import { startUsagePlatform, type UsagePlatform } from "./testing.ts";

let berth: UsagePlatform;
beforeAll(async () => {
  berth = await startUsagePlatform();
});
afterEach(() => berth?.deployer.end("SIGTERM"));
afterAll(() => berth?.stop());

test("a postgres addon is paid for while it exists, by its size", async () => {
  await berth.deployer.run();
  const acting = actAs(berth.platform.port, newId("acc"));
  const environment = await acting.environment();
  const path = environment.at("db");
  const { id } = await acting.catalog.createService({ ...environment, name: "db", type: "postgres" });
  await acting.untilService(path, "running");
  await acting.catalog.updateService({ ...path, config: { size: "medium" } });
  await acting.catalog.deleteService({ ...path, confirmImpact: true });
  const found = await berth.untilEvents(id, "Started", "Resized", "Stopped");
  expect(found.map((one) => [one.serviceType, one.size, one.replicas, one.seq])).toEqual([
    ["postgres", "nano", 1, 0],
    ["postgres", "medium", 1, 1],
    ["postgres", "medium", 1, 2],
  ]);
});

const withRedis = test.skipIf(!inject("redisProgram"));
withRedis("a redis addon is paid for while its server runs", async () => {
  await berth.deployer.run();
  const acting = actAs(berth.platform.port, newId("acc"));
  const environment = await acting.environment();
  const path = environment.at("cache");
  const { id } = await acting.catalog.createService({ ...environment, name: "cache", type: "redis" });
  await acting.untilService(path, "running");
  await berth.untilEvents(id, "Started");
  const state = await readFile(join(berth.platform.dataDir, "redis", id, "state.json"), "utf8");
  process.kill(JSON.parse(state).pid, "SIGKILL");
  await berth.untilEvents(id, "Started", "Stopped", "Started");
  await acting.catalog.updateService({ ...path, config: { size: "small" } });
  await berth.untilEvents(id, "Started", "Stopped", "Started", "Resized");
  await acting.catalog.deleteService({ ...path, confirmImpact: true });
  const found = await berth.untilEvents(id, "Started", "Stopped", "Started", "Resized", "Stopped");
  expect(found.map((one) => [one.serviceType, one.size, one.seq])).toEqual([
    ["redis", "nano", 0],
    ["redis", "nano", 1],
    ["redis", "nano", 0],
    ["redis", "small", 1],
    ["redis", "small", 2],
  ]);
});
