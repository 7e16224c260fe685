import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { fields as gatewayFields } from "../../../gateway/config.ts";
import { start as startGateway } from "../../../gateway/main.ts";
import { createLog } from "../../../services/kit/log.ts";
import { readConfig } from "../../../services/kit/process/config.ts";
import { eventually } from "../../../services/kit/testing/testing.ts";
import { fields } from "../../../services/notifications/config.ts";
import { start } from "../../../services/notifications/main.ts";
import { refusal } from "../../support/door.ts";
import { openEvents } from "../../support/events.ts";
import { connectApp } from "../../support/oauth/application.ts";
import { startWorld, type World } from "../../support/world.ts";

let world: World;
/** A second gateway, which asks a second process of notifications. */
let second: { baseUrl: string; stop: () => Promise<void> };

beforeAll(async () => {
  const envs: Record<string, Record<string, string>> = {};
  world = await startWorld({ RATE_LIMITS: "on" }, async (service, env) => (envs[service] = env));
  const log = createLog("second", "silent");
  const service = await start(readConfig({ ...envs.notifications, PORT: "0" }, fields), log);
  const url = `http://127.0.0.1:${service.port}`;
  const env = { ...envs.gateway, PORT: "0", NOTIFICATIONS_URL: url };
  const gateway = await startGateway(readConfig(env, gatewayFields), log);
  second = {
    baseUrl: `${gateway.origin}/v1`,
    stop: async () => {
      await gateway.stop();
      await service.stop();
    },
  };
});
afterAll(async () => {
  await second?.stop();
  await world?.stop();
});

type Notification = { id: string; kind: string; readAt?: string };
type Page = { data: Notification[]; page: { nextCursor: string } };
type Made = { id: string; token: string };

/** Creates a token, of which its user is told. Returns the token and waits until the feed has the notification. */
async function createToken(name: string, token?: string) {
  const made = await world.must<Made>("POST", "/me/tokens", { name }, token);
  const told = await eventually("it is told", async () => {
    const { data } = await world.must<Page>("GET", "/notifications", undefined, token);
    return data.find((one) => (one as { metadata?: { tokenId?: string } }).metadata?.tokenId === made.id);
  });
  return { ...made, notificationId: told.id };
}

const follow = (baseUrl: string, token: string, lastEventId?: string) =>
  openEvents(`${baseUrl}/notifications/stream`, {
    token,
    ...(lastEventId !== undefined && { lastEventId }),
  });

test("the feed says what is wrong with a request", async () => {
  const get = async (query: string) => refusal(await world.call("GET", `/notifications?${query}`));
  for (const unread of ["1", "yes", "TRUE", ""]) expect(await get(`unread=${unread}`)).toMatch(/^422 /);
  expect(await get("limit=0")).toBe("422 out_of_range");
  expect(await get("limit=101")).toBe("422 out_of_range");
  expect(await get("limit=x")).toMatch(/^422 /);
  expect(await get("cursor=x")).toBe("400 malformed_request");
  expect(await get("kind=deploy.ready")).toBe("422 unknown_field");
  expect((await world.call("GET", "/notifications?unread=false&limit=100")).status).toBe(200);
});

test("the count is not sent again while it is the same", async () => {
  const { token } = await world.member("reader");
  const count = (tag?: string | null) =>
    world.call("GET", "/notifications/unread-count", undefined, {
      token,
      ...(tag && { headers: { "if-none-match": tag } }),
    });
  const before = await count();
  const tag = before.headers.get("etag");
  expect([before.status, tag !== null, (await count(tag)).status]).toEqual([200, true, 304]);
  const { notificationId } = await createToken("another", token);
  const after = await count(tag);
  expect(after.status).toBe(200);
  await world.must("POST", `/notifications/${notificationId}/read`, undefined, token);
  expect((await count(after.headers.get("etag"))).status).toBe(200);
});

test("machines have no feed", async () => {
  const { accessToken } = await connectApp(world, { accountId: world.accountId, role: "editor" });
  const id = "ntf_1";
  for (const [method, path] of [
    ["GET", "/notifications"],
    ["GET", "/notifications/unread-count"],
    ["GET", "/notifications/stream"],
    ["POST", `/notifications/${id}/read`],
    ["POST", "/notifications/read-all"],
    ["GET", `/notifications/${id}/decisions`],
    ["GET", "/me/notification-prefs"],
  ] as const)
    expect([path, (await world.call(method, path, undefined, { token: accessToken })).status]).toEqual([
      path,
      403,
    ]);
});

describe("the stream", () => {
  test("tells on every gateway what arrives and is read, and resumes on another", async () => {
    const { token } = await world.member("reader");
    const [one, other] = await Promise.all([follow(world.baseUrl, token), follow(second.baseUrl, token)]);
    for (const stream of [one, other]) {
      expect([stream.status, stream.headers["content-type"]]).toEqual([
        200,
        "text/event-stream; charset=utf-8",
      ]);
      await stream.until("the count", ({ event }) => event === "unread");
    }
    const { notificationId } = await createToken("streamed", token);
    for (const stream of [one, other]) {
      const { data } = await stream.until("the new one", ({ event }) => event === "notification");
      expect(data).toEqual({ id: notificationId, kind: "security.token_created" });
    }
    const { count } = await world.must<{ count: number }>(
      "GET",
      "/notifications/unread-count",
      undefined,
      token,
    );
    await one.until("the count", ({ event, data }) => event === "unread" && data.count === count);
    const { id: lastEventId } = one.events.at(-1)!;
    one.close();
    await world.must("POST", `/notifications/${notificationId}/read`, undefined, token);
    await other.until("the count", ({ event, data }) => event === "unread" && data.count === count - 1);
    other.close();

    const missed = await createToken("missed", token);
    const resumed = await follow(second.baseUrl, token, lastEventId);
    await resumed.until("what was missed", ({ data }) => data.id === missed.notificationId);
    await resumed.until("the count", ({ event, data }) => event === "unread" && data.count === count);
    resumed.close();
  });

  test("ends with its token", async () => {
    const { token, id } = await createToken("ends");
    const stream = await follow(second.baseUrl, token);
    await stream.until("the count", ({ event }) => event === "unread");
    await world.must("DELETE", `/me/tokens/${id}`);
    await stream.ended();
    expect(stream.events.at(-1)).toMatchObject({
      event: "problem",
      data: { error: { code: "unauthenticated" } },
    });
  });

  test("is refused after an id that no stream sent, and when a token has five on all gateways", async () => {
    const { token } = await createToken("many");
    const refused = await follow(world.baseUrl, token, "x");
    await refused.ended();
    expect([refused.status, JSON.parse(refused.text()).error.code]).toEqual([400, "malformed_request"]);
    const streams = [];
    for (let n = 0; n < 5; n++) streams.push(await follow([world.baseUrl, second.baseUrl][n % 2]!, token));
    expect(streams.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200]);
    const sixth = await follow(second.baseUrl, token);
    expect(sixth.status).toBe(429);
    for (const stream of [...streams, sixth]) stream.close();
  });
});
