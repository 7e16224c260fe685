import http from "node:http";
import { buffer, text } from "node:stream/consumers";
import { gzipSync } from "node:zlib";
import tar from "tar-stream";
import { afterAll, beforeAll, expect, test } from "vitest";
import { eventually } from "../../services/kit/testing/testing.ts";
import { appsHost, type Deployment, deployArchive, open, settled } from "../support/apps.ts";
import { openPlatform, type Platform } from "../support/world.ts";

let world: Platform;

beforeAll(async () => {
  world = await openPlatform();
});

afterAll(() => world.stop());

/** An app that says its edition and its variable; `/long` writes a part each 200 ms, for two seconds. */
async function edition(name: string): Promise<Buffer> {
  const app = `const http = require("node:http");
    http.createServer(async (request, response) => {
      if (request.url === "/long")
        for (let part = 0; part < 10; part++) {
          response.write("part\\n");
          await new Promise((done) => setTimeout(done, 200));
        }
      response.end("${name} " + process.env.WORD + "\\n");
    }).listen(process.env.PORT);`;
  const pack = tar.pack();
  pack.entry({ name: "package.json" }, JSON.stringify({ name: "app", main: "server.js" }));
  pack.entry({ name: "server.js" }, app);
  pack.finalize();
  return gzipSync(await buffer(pack));
}

/** Asks again and again on kept connections until `stop`; gives what was answered, in order. */
function trickle(url: string, path: string) {
  const agent = new http.Agent({ keepAlive: true, maxSockets: 2 });
  const { host, port } = new URL(url);
  const answers: { status?: number; body: string }[] = [];
  let stopped = false;
  const ask = () =>
    new Promise<{ status?: number; body: string }>((resolve) => {
      const failed = (error: Error) => resolve({ body: String(error) });
      http
        .get({ agent, host: appsHost(), port: port || 80, path, headers: { host } }, (response) =>
          text(response).then((body) => resolve({ status: response.statusCode, body }), failed),
        )
        .on("error", failed);
    });
  const loop = async () => {
    while (!stopped) answers.push(await ask());
  };
  const done = Promise.all([loop(), loop()]);
  return {
    answers,
    stop: async () => {
      stopped = true;
      await done;
      agent.destroy();
    },
  };
}

test("a deployment, changed variables and other replicas cost no request, be it kept alive or two seconds long", async () => {
  const { E, S: service } = await world.environment();
  const S = service("web");
  await world.must("POST", `${E}/services`, { name: "web", type: "web" });
  await world.must("POST", `${S}/variables`, { name: "WORD", value: "one" });
  await deployArchive(world, S, await edition("first"));
  await settled(world, S, 1);
  const { url } = await world.must<{ url: string }>("GET", S);
  const answer = (wanted: string) =>
    eventually(`it says ${wanted}`, async () => (await open(url)).body.startsWith(wanted));

  const short = trickle(url, "/");
  const long = trickle(url, "/long");
  await deployArchive(world, S, await edition("second"));
  await settled(world, S, 2);
  await answer("second one");
  await world.must("PATCH", `${S}/variables/WORD`, { value: "two" });
  await answer("second two");
  await world.must("PATCH", S, { config: { replicas: 3 } });
  await world.must("PATCH", S, { config: { replicas: 1 } });
  await world.must<Deployment>("POST", `${S}/rollback`, { version: 1 });
  await settled(world, S, 3);
  await answer("first two");
  await Promise.all([short.stop(), long.stop()]);

  expect([...short.answers, ...long.answers].filter(({ status }) => status !== 200)).toEqual([]);
  const whole = /^(part\n){10}(first|second) (one|two)\n$/;
  expect(long.answers.filter(({ body }) => !whole.test(body))).toEqual([]);
  const said = new Set(short.answers.map(({ body }) => body.trim()));
  expect(said).toEqual(new Set(["first one", "second one", "second two", "first two"]));
});
