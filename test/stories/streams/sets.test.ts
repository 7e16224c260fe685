import { afterAll, beforeAll, expect, test } from "vitest";
import { Berth } from "../../../clients/typescript/src/index.ts";
import { refusal } from "../../support/door.ts";
import type { EventSource } from "../../support/events.ts";
import { startWorld, type World } from "../../support/world.ts";
import { openStream, type StreamOptions } from "./follow.ts";

let world: World;

beforeAll(async () => {
  world = await startWorld();
});

afterAll(() => world?.stop());

const open = (path: string, options?: StreamOptions) => openStream(world, path, options);

async function scene() {
  const { P, E, S, ...ids } = await world.environment();
  await world.must("POST", `${E}/services`, { name: "web", type: "web" });
  const web = S("web");
  const create = (base: string, name: string, value: string, sensitive = false) =>
    world.must("POST", `${base}/variables`, { name, value, sensitive });
  return { P, E, web, resolved: `${web}/resolved-variables`, create, ids };
}

/** Waits for a commit after which a name is set, and returns its id. */
async function committed(stream: EventSource, name: string): Promise<string> {
  const change = await stream.until<{ name?: string }>(
    name,
    ({ event, data }) => event === "set" && data.name === name,
  );
  const at = stream.events.indexOf(change as never);
  const commit = await stream.until(
    "its commit",
    (one) => one.event === "commit" && stream.events.indexOf(one as never) > at,
  );
  return commit.id;
}

test("resolved variables are followed: shown as a read shows them, one frame for a batch, ids on commits alone", async () => {
  const { P, E, web, resolved, create } = await scene();
  await create(P, "TOKEN", "marker-of-stream", true);
  await create(P, "LEVEL", "info");
  const stream = await open(resolved);
  expect(stream.headers["content-type"]).toBe("text/event-stream; charset=utf-8");
  const id = await committed(stream, "TOKEN");
  const { data } = await world.must<{ data: object[] }>("GET", resolved);
  expect(stream.events.filter(({ event }) => event === "set").map((one) => one.data.variable)).toEqual(data);
  expect(stream.events[0]).toMatchObject({ event: "begin", data: { mode: "full" } });
  expect(stream.text().match(/^id: /gm)).toHaveLength(1);
  const read = await world.call("GET", resolved);
  expect(read.headers.get("etag")).toBe(`"${id}"`);

  const before = stream.events.length;
  const set = [
    { name: "A", value: "1" },
    { name: "B", aliasTarget: "NOWHERE" },
  ];
  await world.must("POST", `${E}/variables/batch`, { set });
  await committed(stream, "B");
  expect(stream.events.slice(before).map(({ event }) => event)).toEqual(["begin", "set", "set", "commit"]);
  const dangling = stream.events.find(({ data }) => data.name === "B");
  expect(dangling!.data).toEqual({
    name: "B",
    dangling: { name: "B", aliasTarget: "NOWHERE", reason: "alias_target_not_found" },
  });
  await world.must("PATCH", `${P}/variables/TOKEN`, { value: "marker-of-stream-2" });
  await world.must("DELETE", `${E}/variables/A?confirmImpact=true`);
  await stream.until("it is gone", ({ event, data }) => event === "unset" && data.name === "A");
  expect(stream.text()).not.toContain("marker-of-stream");
  stream.close();

  const resumed = await open(resolved, { lastEventId: id });
  await committed(resumed, "B");
  expect(resumed.events[0]!.data).toEqual({ mode: "changes" });
  expect(
    resumed.events
      .map(({ event, data }) => (event === "begin" || event === "commit" ? event : data.name))
      .sort(),
  ).toEqual(["A", "B", "TOKEN", "begin", "commit"]);
  resumed.close();
  for (const lastEventId of ["nonsense", "é".repeat(100), `${id}-1`]) {
    const again = await open(resolved, { lastEventId });
    await committed(again, "TOKEN");
    expect(again.events[0]!.data).toEqual({ mode: "full" });
    again.close();
  }
  await world.must("DELETE", `${web}?confirmImpact=true`);
});

test("an environment is followed through the client: a service appears, and goes", async () => {
  const { E, ids } = await scene();
  const berth = new Berth({ baseUrl: world.baseUrl, token: world.ownerToken });
  const at = { accountId: world.accountId, ...ids } as Parameters<typeof berth.environments.follow>[0];
  const seen: string[] = [];
  for await (const { services } of berth.environments.follow(at)) {
    const shown = services.map(({ name, status }) => `${name} ${status}`).join();
    if (seen.at(-1) !== shown) seen.push(shown);
    if (seen.length === 1)
      await world.must("POST", `${E}/services`, { name: "api", type: "worker", staged: true });
    else if (shown.includes("api")) await world.call("DELETE", `${E}/services/api`);
    else break;
  }
  expect(seen[0]).toBe("web pending");
  expect(seen).toContain("api staged,web pending");
  expect(seen.at(-1)).toBe("web pending");
});

test("who may not read it, or what is not there, is refused before the stream", async () => {
  const { E, web, resolved } = await scene();
  const events = { accept: "text/event-stream" };
  const get = async (path: string, token?: string) =>
    refusal(await world.call("GET", path, undefined, { headers: events, token }));
  for (const path of [resolved, `${E}/events`]) {
    expect(await get(path, "nonsense")).toBe("401 unauthenticated");
    expect(await get(path.replace(/acc_[^/]+/, "acc_nowhere"))).toBe("403 forbidden");
    expect(await get(path.replace(/prj_[^/]+/, "prj_nowhere"))).toBe("404 not_found");
    expect(await get(`${path}?lastEventId=x`)).toBe("422 unknown_field");
  }
  expect(await get(`${web}-other/resolved-variables`)).toBe("404 not_found");
  const mine = await world.must<{ id: string }>("POST", "/accounts", { handle: "of-streams" });
  expect(await get(resolved.replace(/acc_[^/]+/, mine.id))).toBe("404 not_found");
  expect(await get(`${E}/events`.replace(/acc_[^/]+/, mine.id))).toBe("404 not_found");
});

test("a member who is removed, or whose environment is deleted, follows no longer", async () => {
  const { P, E, resolved } = await scene();
  const reader = await world.member("reader");
  const [mine, theirs] = [await open(`${E}/events`), await open(resolved, { token: reader.token })];
  await theirs.until("it is open", ({ event }) => event === "commit");
  await world.must("DELETE", `${world.A}/members/${reader.userId}`);
  await theirs.ended();
  expect(theirs.events.at(-1)).toMatchObject({ event: "problem", data: { error: { code: "forbidden" } } });
  expect(mine.isEnded()).toBe(false);
  await world.must("DELETE", `${P}?confirmImpact=true`);
  await mine.ended();
  expect(mine.events.at(-1)).toMatchObject({ event: "problem", data: { error: { code: "not_found" } } });
});

test("who reads slowly holds up nobody, and gets the newest state", async () => {
  const { web, resolved, create } = await scene();
  const [slow, quick] = [await open(resolved), await open(resolved)];
  await create(web, "BIG", "0".repeat(60_000));
  await committed(slow, "BIG");
  slow.pause();
  const ROUNDS = 40;
  for (let n = 1; n <= ROUNDS; n++)
    await world.must("PATCH", `${web}/variables/BIG`, { value: `${n}-${String(n % 10).repeat(60_000)}` });
  await create(web, "LAST", "1");
  await committed(quick, "LAST");
  slow.resume();
  await committed(slow, "LAST");
  const values = slow.events.flatMap(
    ({ data }) => (data as { variable?: { name: string; value: string } }).variable ?? [],
  );
  const big = values.filter(({ name }) => name === "BIG");
  expect(big.at(-1)!.value.startsWith(`${ROUNDS}-`)).toBe(true);
  quick.close();
  slow.close();
});
