import { afterAll, beforeAll, expect, inject, test } from "vitest";
import { eventually } from "../../../services/kit/testing/testing.ts";
import { deployArchive, open, settled } from "../../support/apps.ts";
import { archiveOf } from "../../support/archives.ts";
import { refusal } from "../../support/door.ts";
import { openPlatform, type Platform } from "../../support/world.ts";

let world: Platform;
beforeAll(async () => {
  world = await openPlatform();
});
afterAll(() => world?.stop());

type Service = { status: string; statusMessage?: string; url: string; credentialsRotatedAt?: string };

const withRedis = inject("platform") !== undefined || inject("redisProgram") !== undefined;

/** Counts visits in redis, and asks postgres how it wants to be told the password: 10 is SCRAM. */
const app = `
const [http, net] = [require("node:http"), require("node:net")];
const ask = (url, question, enough) => new Promise((done) => {
  const socket = net.connect(Number(url.port), url.hostname);
  let said = Buffer.alloc(0);
  socket.setTimeout(3_000, () => socket.destroy());
  socket.on("connect", () => socket.write(question)).on("error", () => {}).on("close", () => done(said));
  socket.on("data", (part) => enough(said = Buffer.concat([said, part])) && socket.destroy());
});
async function visits() {
  const url = new URL(process.env.REDIS_URL);
  const said = await ask(url, "AUTH " + url.password + "\\r\\nINCR visits\\r\\n", (text) => /:\\d+\\r\\n|^-/.test(text));
  return Number(/:(\\d+)\\r\\n/.exec(said.toString())?.[1] ?? 0);
}
async function wants() {
  const url = new URL(process.env.DATABASE_URL);
  const names = Buffer.from(["user", url.username, "database", url.pathname.slice(1), "", ""].join("\\0"));
  const head = Buffer.alloc(8);
  head.writeInt32BE(names.length + 8);
  head.writeInt32BE(196608, 4);
  const said = await ask(url, Buffer.concat([head, names]), (text) => text.length >= 9);
  return said.length >= 9 && said[0] === 82 ? said.readInt32BE(5) : 0;
}
http.createServer(async (_, response) => {
  response.end(JSON.stringify({ visits: await visits(), wants: await wants() }));
}).listen(process.env.PORT);
`;

test.skipIf(!withRedis)(
  "an app reaches its addons by their connections, and finds its data after their passwords were replaced",
  async () => {
    const { E, S } = await world.environment();
    const addons = [
      { name: "cache", type: "redis", variable: "REDIS_URL" },
      { name: "db", type: "postgres", variable: "DATABASE_URL" },
    ];
    const running = (name: string) =>
      eventually(`${name} is running`, async () => {
        const found = await world.must<Service>("GET", S(name));
        return found.status === "running" && found;
      });
    for (const { name, type, variable } of addons) {
      await world.must("POST", `${E}/services`, { name, type });
      const connection = { service: name, key: "URL" };
      await world.must("POST", `${E}/variables`, { name: variable, connection });
    }
    await Promise.all(addons.map(({ name }) => running(name)));
    await world.must("POST", `${E}/services`, { name: "web", type: "web" });
    const files = { "package.json": '{"scripts":{"start":"node server.js"}}', "server.js": app };
    const archive = await archiveOf(Object.entries(files).map(([name, content]) => ({ name, content })));
    const { version } = await deployArchive(world, S("web"), archive);
    expect((await settled(world, S("web"), version)).errors).toEqual([]);
    const said = async (): Promise<{ visits: number; wants: number }> => {
      const { status, body } = await open((await world.must<Service>("GET", S("web"))).url);
      return status === 200 ? JSON.parse(body) : { visits: 0, wants: 0 };
    };
    const speaksToBoth = () =>
      eventually("the app speaks to both", async () => {
        const now = await said();
        return now.visits > 0 && now.wants === 10 && now;
      });
    const before = await speaksToBoth();

    for (const { name } of addons) await world.must("POST", `${S(name)}/rotate-credentials`, {});
    await eventually("both have new passwords", async () => {
      const found = await Promise.all(addons.map(({ name }) => world.must<Service>("GET", S(name))));
      return found.every((one) => one.credentialsRotatedAt !== undefined);
    });
    await eventually("the app goes on counting with the new one", async () => {
      const now = await said();
      return now.visits > before.visits && now.wants === 10;
    });

    // Another one takes the place of the cache, and gives it back: its data was not touched.
    await world.must("POST", `${E}/services`, { name: "next", type: "redis" });
    await running("next");
    // Not while a deployment with a new password takes the place of one that knows the former.
    const most = (await speaksToBoth()).visits;
    await world.must("POST", `${S("next")}/promote`, { over: "cache" });
    await eventually("the app counts in the other one", async () => {
      const { visits } = await said();
      return visits > 0 && visits < most;
    });
    await world.must("POST", `${S("next")}/promote`, { over: "cache" });
    await eventually("the app goes on counting in the first one", async () => (await said()).visits > most);

    expect(refusal(await world.call("DELETE", S("cache")))).toBe("409 impact_confirmation_required");
    for (const { name } of addons)
      expect((await world.call("DELETE", S(name), { confirmImpact: true })).status).toBe(204);
    await eventually("the addons are gone", async () => {
      const found = await Promise.all(addons.map(({ name }) => world.call("GET", S(name))));
      return found.every(({ status }) => status === 404);
    });
  },
);
