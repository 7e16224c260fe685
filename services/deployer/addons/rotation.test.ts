import { setTimeout as delay } from "node:timers/promises";
import pg from "pg";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { refused } from "../../kit/testing/refusal.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { actAs } from "../testing/testing.ts";
import { type AddonPlatform, command, program, startAddonPlatform, withRedis, works } from "./testing.ts";

let berth: AddonPlatform;

beforeAll(async () => {
  berth = await startAddonPlatform();
});
afterEach(() => berth.end("SIGTERM"));
afterAll(() => berth?.stop());

withRedis("rotating a redis addon ends the old password and publishes a new one", async () => {
  await berth.run();
  const { path, id, untilService, catalog } = await berth.addon("redis");
  await untilService(path, "running");
  const keys = await berth.keysOf(id);
  await command(keys, ["SET", "kept", "yes"]);
  expect((await catalog.rotateCredentials(path)).name).toBe("store");
  const now = await berth.rotated(id, keys);
  expect([now.PORT, await works(now), await works(keys)]).toEqual([keys.PORT, true, false]);
  await command(now, ["RENAME", "kept", "still"]);
  await berth.end("SIGTERM");
  await berth.run();
  await eventually("the new password counts after a restart", () => works(now));
});

test("rotating a postgres addon ends the old password, publishes a new one and keeps the data", async () => {
  await berth.run();
  const { path, id, untilService, catalog, service } = await berth.addon("postgres");
  await untilService(path, "running");
  const keys = await berth.keysOf(id);
  await sql(keys.URL, "create table kept as select 7 as n");
  expect((await service(path)).credentialsRotatedAt).toBeUndefined();
  await catalog.rotateCredentials(path);
  const now = await berth.rotated(id, keys);
  expect((await service(path)).credentialsRotatedAt).toBeDefined();
  expect((await sql(now.URL, "select n from kept")).rows).toEqual([{ n: 7 }]);
  await expect(sql(keys.URL, "select 1")).rejects.toThrow(/password authentication failed/);
});

test("a rotation that is killed anywhere ends with keys that work", async () => {
  await berth.run();
  const types = program ? ["postgres", "redis"] : ["postgres"];
  for (const type of types) {
    const { path, id, untilService, catalog } = await berth.addon(type);
    await untilService(path, "running");
    for (const pause of [0, 2, 10, 30]) {
      const keys = await berth.keysOf(id);
      await catalog.rotateCredentials(path);
      await delay(pause); // the moment of the kill
      await berth.end("SIGKILL");
      await berth.run();
      const now = await berth.rotated(id, keys);
      if (type === "redis") expect(await works(now)).toBe(true);
      else expect((await sql(now.URL, "select 1 as n")).rowCount).toBe(1);
    }
  }
});

test("only an addon that is ready has credentials to rotate, and only an editor may", async () => {
  await berth.run();
  const { environment, catalog, accountId, path } = await berth.addon("postgres");
  await catalog.createService({ ...environment, name: "web", type: "web" });
  await catalog.createService({ ...environment, name: "later", type: "postgres", staged: true });
  expect(await refused(catalog.rotateCredentials(environment.at("web")))).toBe(
    "422 validation_failed not_addon",
  );
  expect(await refused(catalog.rotateCredentials(environment.at("none")))).toBe("404 not_found");
  expect(await refused(catalog.rotateCredentials(environment.at("later")))).toBe("409 service_not_ready");
  const reader = actAs(berth.port, accountId, "reader").catalog;
  expect(await refused(reader.rotateCredentials(path))).toBe("403 forbidden");
});

async function sql(url: string, text: string) {
  const client = new pg.Client({ connectionString: url });
  try {
    await client.connect();
    return await client.query(text);
  } finally {
    await client.end();
  }
}
