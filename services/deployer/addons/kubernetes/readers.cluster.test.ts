import { afterAll, beforeAll, expect, test } from "vitest";
import { eventually } from "../../../kit/testing/testing.ts";
import type { AddonType } from "../../terms/services.ts";
import { newPassword } from "../lifecycle.ts";
import { addonsForTest, newAddon } from "./testing.ts";

let cluster: ReturnType<typeof addonsForTest>;
let addons: ReturnType<typeof cluster.openEngines>;

beforeAll(() => {
  cluster = addonsForTest();
  // CloudNativePG, where `npm run test:cnpg` installs it.
  addons = cluster.openEngines("auto");
});
afterAll(() => cluster?.stop());

test.concurrent.each<[AddonType, ready: RegExp, done: RegExp]>([
  ["redis", /Ready to accept connections/, /DB saved on disk/],
  ["postgres", /LOG: {2}database system is ready/, /ERROR: {2}relation "nothing" does not exist/],
])(
  "the log of a %s addon has its server's lines, and no password; its server is measured",
  async (type, ready, done) => {
    const engine = type === "postgres" ? await addons.postgresEngine() : undefined;
    const [addon, password] = [{ ...newAddon(type), engine }, newPassword()];
    await eventually("it is ready", async () => (await addons.ensure(addon, password)).state === "ready");
    const { serviceId, environmentId } = addon;
    const query = { serviceId, environmentId, addon: { type, engine } };
    await eventually("its server says that it is ready", async () => {
      const { lines } = await addons.logs({ ...query, limit: 1_000 });
      return lines.some(({ message }) => ready.test(message));
    });
    const stop = new AbortController();
    const following = addons.followLogs({ ...query, tail: 1_000 }, stop.signal);
    const asking = cluster.ask(addon, password, type === "redis" ? "SAVE" : "select * from nothing");
    const seen: string[] = [];
    for await (const { message, version } of following) {
      seen.push(message);
      expect(version).toBe(0);
      if (done.test(message)) stop.abort();
    }
    await asking;
    // None of the operator's own lines, which are JSON.
    expect(seen.filter((message) => message.startsWith("{"))).toEqual([]);
    expect(seen.join("\n")).not.toContain(password);
    const measured = await eventually("it is measured", async () => {
      await addons.status(addon);
      return (await addons.measure()).find((one) => one.serviceId === serviceId && one.replicas === 1);
    });
    expect(measured.counters[0]).toMatchObject({ restarts: 0 });
  },
);
