import { afterAll, beforeAll, expect, test } from "vitest";
import { fields as gatewayFields } from "../../gateway/config.ts";
import { start as startGateway } from "../../gateway/main.ts";
import { createLog } from "../../services/kit/log.ts";
import { readConfig } from "../../services/kit/process/config.ts";
import { freePort } from "../../services/kit/process/free-port.ts";
import type { Running } from "../../services/kit/process/process.ts";
import { fields as variablesFields } from "../../services/variables/config.ts";
import { start as startVariables } from "../../services/variables/main.ts";
import { type Door, openDoor } from "../support/door.ts";
import { startWorld, type World } from "../support/world.ts";

const WRITES = 60;
const READERS = 6;

let world: World;
/** Both gateways; each asks a replica of variables of its own. */
let doors: Door[];
const others: Running[] = [];

beforeAll(async () => {
  const envs: Record<string, Record<string, string>> = {};
  world = await startWorld({}, async (service, env) => (envs[service] = env));
  const log = createLog("other", "silent");
  const [variables, gateway] = [await freePort(), await freePort()];
  others.push(
    await startVariables(readConfig({ ...envs.variables, PORT: String(variables) }, variablesFields), log),
    await startGateway(
      readConfig(
        { ...envs.gateway, PORT: String(gateway), VARIABLES_URL: `http://127.0.0.1:${variables}` },
        gatewayFields,
      ),
      log,
    ),
  );
  doors = [world, await openDoor(`http://127.0.0.1:${gateway}`, world.ownerToken)];
});
afterAll(async () => {
  for (const other of others.toReversed()) await other.stop();
  await world?.stop();
});

type Named = { name: string; value?: string };

test("a read that begins after a write was acknowledged sees it, through any gateway and replica, under load", async () => {
  const { E, S: service } = await world.environment();
  const S = service("web");
  await world.must("POST", `${E}/services`, { name: "web", type: "web" });
  const numberIn = (text: string | undefined) => Number(/\d+/.exec(text ?? "")?.[0]);
  const valueIn = (data: Named[]) => numberIn(data.find(({ name }) => name === "N")?.value);
  const tags: string[] = [];
  /** Ways to read the last number written, by one who has read `since` or the number before. */
  const reads: ((door: Door, since: number) => Promise<number>)[] = [
    async (door) => valueIn((await door.must<{ data: Named[] }>("GET", `${S}/resolved-variables`)).data),
    async (door) => valueIn((await door.must<{ data: Named[] }>("GET", `${E}/variables`)).data),
    async (door) => numberIn((await door.must<Named>("GET", `${E}/variables/N`)).value),
    async (door) =>
      numberIn((await door.must<{ config: { healthCheckPath: string } }>("GET", S)).config.healthCheckPath),
    async (door, since) => {
      const held = Math.max(1, since - 1);
      const headers = { "if-none-match": tags[held]! };
      const answer = await door.call<{ data: Named[] }>("GET", `${S}/resolved-variables`, undefined, {
        headers,
      });
      return answer.status === 304 ? held : valueIn(answer.body.data);
    },
  ];

  let acknowledged = 0;
  async function write(n: number): Promise<void> {
    const door = doors[n % 2]!;
    const set = [{ name: "N", value: `value-${n}` }];
    await Promise.all([
      door.must("POST", `${E}/variables/batch`, { set }),
      door.must("PATCH", S, { config: { healthCheckPath: `/${n}` } }),
    ]);
    // What a client holds that has read this number, and no later one.
    const { headers } = await door.call("GET", `${S}/resolved-variables`);
    tags[n] = headers.get("etag")!;
    acknowledged = n;
  }

  let done = 0;
  const stale: string[] = [];
  async function read(reader: number): Promise<void> {
    for (let i = reader; acknowledged < WRITES; i++) {
      const since = acknowledged;
      const seen = await reads[i % reads.length]!(doors[Math.floor(i / reads.length) % 2]!, since);
      if (!(seen >= since)) stale.push(`way ${i % reads.length} answered ${seen} after ${since}`);
      done++;
    }
  }

  await write(1);
  const writing = (async () => {
    for (let n = 2; n <= WRITES; n++) await write(n);
  })();
  await Promise.all([writing, ...Array.from({ length: READERS }, (_, reader) => read(reader))]);
  expect(stale).toEqual([]);
  expect(done).toBeGreaterThan(WRITES);
});
