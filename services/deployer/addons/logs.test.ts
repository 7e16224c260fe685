import { afterAll, beforeAll, expect, test } from "vitest";
import type { LogEvent } from "../../../proto/gen/berth/deployer/v1/deployments_pb.ts";
import { newId } from "../../kit/ids.ts";
import { refused } from "../../kit/testing/refusal.ts";
import { actAs } from "../testing/testing.ts";
import { type AddonPlatform, command, startAddonPlatform, withRedis } from "./testing.ts";

let berth: AddonPlatform;

beforeAll(async () => {
  berth = await startAddonPlatform();
  await berth.run();
});
afterAll(() => berth?.stop());

async function running(type: string) {
  const addon = await berth.addon(type);
  await addon.untilService(addon.path, "running");
  const { deployments, path } = addon;
  return {
    ...addon,
    page: async (more: object = {}) => (await deployments.listLogs({ ...path, limit: 1_000, ...more })).data,
    /** Yields the lines of the stream. */
    async *follow(more: object = {}) {
      for await (const { event } of deployments.followLogs({ ...path, ...more }) as AsyncIterable<LogEvent>)
        if (event.case === "line") yield event.value;
    },
  };
}

const counted = (lines: { message: string }[], word: string) =>
  lines.filter(({ message }) => message.includes(word)).length;

withRedis("the log of a redis addon has what its server writes, by the filters of every log", async () => {
  const { id, path, page, follow, deployments } = await running("redis");
  const [ready] = (await page()).filter(({ message }) => message.includes("Ready to accept connections"));
  expect(ready).toMatchObject({ stream: "stdout", replica: "0", version: 0 });
  expect(await page({ stream: "stderr" })).toEqual([]);
  expect(await page({ version: 1 })).toEqual([]);
  const first = await deployments.listLogs({ ...path, limit: 1 });
  const second = await deployments.listLogs({ ...path, limit: 1, cursor: first.page!.nextCursor });
  expect([...first.data, ...second.data]).toEqual((await page()).slice(0, 2));

  const keys = await berth.keysOf(id);
  for await (const { message } of follow({ limit: 1 })) {
    if (message.includes("DB saved on disk")) break;
    await command(keys, ["SAVE"]);
  }
  expect(JSON.stringify((await page()).map(({ message }) => message))).not.toContain(keys.PASSWORD);
  const stranger = actAs(berth.port, newId("acc"));
  expect(await refused(stranger.deployments.listLogs({ ...path, accountId: stranger.accountId }))).toBe(
    "404 not_found",
  );
});

withRedis(
  "a log goes on where it was, each line once, when the deployer or the server is killed",
  async () => {
    const { id, page, untilService, path } = await running("redis");
    const keys = await berth.keysOf(id);
    await command(keys, ["SAVE"]);
    await berth.end("SIGKILL");
    await command(keys, ["SAVE"]);
    await berth.run();
    await expect.poll(async () => counted(await page(), "DB saved on disk")).toBe(2);
    expect(counted(await page(), "Ready to accept connections")).toBe(1);
    process.kill((await berth.recordOf(id)).pid, "SIGKILL");
    await expect.poll(async () => counted(await page(), "Ready to accept connections")).toBe(2);
    await untilService(path, "running");
    expect(counted(await page(), "DB saved on disk")).toBe(2);
  },
);

test("a postgres addon of one machine shares its server's log with others, so it is refused with the reason", async () => {
  const { deployments, path, page, follow } = await running("postgres");
  expect(await refused(page())).toBe("422 validation_failed not_supported_here");
  await expect(page()).rejects.toThrow("statements of other accounts");
  expect(await refused(follow().next())).toBe("422 validation_failed not_supported_here");
  expect(await refused(deployments.listLogs({ ...path, service: "none" }))).toBe("404 not_found");
});
