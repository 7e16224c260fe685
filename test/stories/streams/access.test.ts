import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { eventually } from "../../../services/kit/testing/testing.ts";
import { refusal } from "../../support/door.ts";
import { startWorld, type World } from "../../support/world.ts";
import { countCalls, createService, openStream, type StreamOptions } from "./follow.ts";

let world: World;

beforeAll(async () => {
  world = await startWorld();
});

afterAll(() => world?.stop());

const open = (path: string, options?: StreamOptions) => openStream(world, path, options);
const service = (type: string) => createService(world, type);

describe("who may follow", () => {
  test("a revoked token ends its streams, and leaves those of others", async () => {
    const S = await service("worker");
    const made = await world.must<{ id: string; token: string }>("POST", "/me/tokens", { name: "follower" });
    const [mine, other] = await Promise.all([open(`${S}/logs`, { token: made.token }), open(`${S}/logs`)]);
    const over = countCalls(world, "FollowLogs");
    await world.must("DELETE", `/me/tokens/${made.id}`);
    await mine.ended();
    expect(mine.events).toMatchObject([{ event: "problem", data: { error: { code: "unauthenticated" } } }]);
    await eventually("its call is over", async () => countCalls(world, "FollowLogs") === over + 1);
    expect(other.isEnded()).toBe(false);
    other.close();
  });

  test("a member who is removed follows no longer", async () => {
    const S = await service("worker");
    const reader = await world.member("reader");
    const logs = await open(`${S}/logs`, { token: reader.token });
    expect(logs.status).toBe(200);
    await world.must("DELETE", `${world.A}/members/${reader.userId}`);
    await logs.ended();
    expect(logs.events).toMatchObject([{ event: "problem", data: { error: { code: "forbidden" } } }]);
  });
});

test("what does not ask for events gets JSON, as before", async () => {
  const S = await service("worker");
  for (const accept of [
    "application/json",
    "*/*",
    "text/html",
    "application/json, text/event-stream;q=0.5",
  ]) {
    const answer = await open(`${S}/logs`, { accept });
    await answer.ended();
    expect([answer.headers["content-type"], JSON.parse(answer.text())]).toEqual([
      "application/json; charset=utf-8",
      { data: [], page: { nextCursor: "", hasMore: false } },
    ]);
  }
});

test("what is refused before the first event is refused in the envelope", async () => {
  const S = await service("worker");
  const events = { accept: "text/event-stream" };
  const get = async (path: string, more: Record<string, string> = {}, token?: string) =>
    refusal(await world.call("GET", path, undefined, { headers: { ...events, ...more }, token }));
  expect(await get(`${S}/deployments/1/build-logs`)).toBe("404 not_found");
  expect(await get(`${S}/deployments/1/events`)).toBe("404 not_found");
  expect(await get(`${S}-other/logs`)).toBe("404 not_found");
  expect(await get(`${S}/logs?stream=both`)).toBe("422 invalid_choice");
  expect(await get(`${S}/logs?limit=1001`)).toBe("422 out_of_range");
  expect(await get(`${S}/logs?lastEventId=x`)).toBe("422 unknown_field");
  expect(await get(`${S}/logs`, {}, "nonsense")).toBe("401 unauthenticated");
  await world.must("POST", `${S}/deploy`, { image: "docker.io/library/nginx:1" });
  expect(await get(`${S}/deployments/1/build-logs`)).toBe("404 not_found");
  for (const id of ["x", "1".repeat(65), "x".repeat(5_000)])
    expect(await get(`${S}/deployments/1/events`, { "last-event-id": id })).toBe("400 malformed_request");
});
