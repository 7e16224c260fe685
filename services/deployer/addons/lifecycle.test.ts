import { readdir, readFile, stat } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, expect } from "vitest";
import { refused } from "../../kit/testing/refusal.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { findProcessesOf, startedOf } from "../shared/process-tree.ts";
import { sendCommands } from "./redis-client.ts";
import { type AddonPlatform, command, startAddonPlatform, withRedis, works } from "./testing.ts";

let berth: AddonPlatform;

beforeAll(async () => {
  berth = await startAddonPlatform();
});
afterEach(() => berth.end("SIGTERM"));
afterAll(() => berth?.stop());

withRedis(
  "a redis addon is a server of its own, reached with the keys it publishes and nothing less",
  async () => {
    await berth.run();
    const { path, id, untilService, catalog } = await berth.addon("redis");
    await untilService(path, "running");
    const keys = await berth.keysOf(id);
    expect(keys).toMatchObject({ ready: true, HOST: "127.0.0.1" });
    expect(keys.URL).toBe(`redis://:${keys.PASSWORD}@127.0.0.1:${keys.PORT}`);
    await command(keys, ["SET", "greeting", "hello"]);
    await expect(sendCommands(Number(keys.PORT), [["SET", "a", "b"]])).rejects.toMatchObject({
      code: "NOAUTH",
    });
    await expect(sendCommands(Number(keys.PORT), [["AUTH", "guess"]])).rejects.toMatchObject({
      code: "WRONGPASS",
    });

    const { pid } = await berth.recordOf(id);
    expect(await readFile(`/proc/${pid}/cmdline`, "latin1")).not.toContain(keys.PASSWORD);
    expect(berth.output()).toContain("addon is ready");
    expect(berth.output()).not.toContain(keys.PASSWORD);
    const folder = join(berth.dataDir, "redis", id);
    expect((await stat(join(folder, "redis.conf"))).mode & 0o777).toBe(0o600);
    const files = await readdir(folder, { recursive: true, withFileTypes: true });
    const others = files.filter((entry) => entry.isFile() && entry.name !== "redis.conf");
    for (const { parentPath, name } of others)
      expect(await readFile(join(parentPath, name), "utf8")).not.toContain(keys.PASSWORD);

    expect(await refused(catalog.deleteService(path))).toBe("409 impact_confirmation_required");
    await catalog.deleteService({ ...path, confirmImpact: true });
    await eventually("it is gone with its data", async () => {
      const left = await readdir(join(berth.dataDir, "redis"));
      return !left.includes(id) && startedOf(pid) === undefined;
    });
    await expect(berth.keysOf(id)).rejects.toThrow(/not_found/);
  },
);

withRedis(
  "a redis server goes on when the deployer is killed, ends with it, and comes back at its port with its data",
  async () => {
    await berth.run();
    const { path, id, untilService } = await berth.addon("redis");
    await untilService(path, "running");
    const keys = await berth.keysOf(id);
    await command(keys, ["SET", "kept", "yes"]);
    const before = await berth.recordOf(id);
    await berth.end("SIGKILL");
    expect(await works(keys)).toBe(true);
    await berth.run();
    await untilService(path, "running");
    expect((await berth.recordOf(id)).pid).toBe(before.pid);
    await berth.end("SIGTERM");
    expect(startedOf(before.pid)).toBeUndefined();
    await berth.run();
    await eventually("it answers again", () => works(keys));
    expect((await berth.keysOf(id)).PORT).toBe(keys.PORT);
    // RENAME is refused for a key that is not there.
    await command(keys, ["RENAME", "kept", "still"]);
  },
);

withRedis("a redis server that ends is started again, and one that died with the deployer too", async () => {
  await berth.run();
  const { path, id, untilService } = await berth.addon("redis");
  await untilService(path, "running");
  const keys = await berth.keysOf(id);
  const first = await berth.recordOf(id);
  process.kill(first.pid, "SIGKILL");
  const second = await eventually("another one answers", async () => {
    const now = await berth.recordOf(id);
    return now.pid !== first.pid && (await works(keys)) && now;
  });
  await berth.end("SIGKILL");
  process.kill(second.pid, "SIGKILL");
  await berth.run();
  await eventually("it answers again", () => works(keys));
  expect((await berth.keysOf(id)).revision).toBe(keys.revision);
});

withRedis(
  "a redis addon gets another port when its own was taken meanwhile, and publishes that",
  async () => {
    await berth.run();
    const { path, id, untilService } = await berth.addon("redis");
    await untilService(path, "running");
    const keys = await berth.keysOf(id);
    await berth.end("SIGTERM");
    const thief = createServer((socket) => socket.destroy());
    await new Promise<void>((done) => thief.listen(Number(keys.PORT), "127.0.0.1", done));
    await berth.run();
    const now = await eventually("other keys are published", async () => {
      const found = await berth.keysOf(id);
      return found.revision > keys.revision && found;
    });
    expect(now.PORT).not.toBe(keys.PORT);
    expect(await works(now)).toBe(true);
    thief.close();
  },
);

withRedis(
  "a deployer killed while it makes a redis addon ends with one server that its keys open",
  async () => {
    for (const pause of [5, 40, 100, 200]) {
      await berth.run();
      const { path, id, untilService, catalog } = await berth.addon("redis");
      await delay(pause); // the moment of the kill
      await berth.end("SIGKILL");
      await berth.run();
      await untilService(path, "running");
      await eventually("it answers", async () => works(await berth.keysOf(id)));
      const folder = join(berth.dataDir, "redis", id);
      expect(findProcessesOf(folder).map((one) => one.pid)).toEqual([(await berth.recordOf(id)).pid]);
      await catalog.deleteService({ ...path, confirmImpact: true });
      await eventually("nothing of it runs", async () => findProcessesOf(folder).length === 0);
      await berth.end("SIGTERM");
    }
  },
);
