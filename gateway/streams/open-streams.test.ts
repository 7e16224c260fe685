import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createPool } from "../../services/kit/postgres/db.ts";
import { notFound, unavailable } from "../../services/kit/rpc/refusals.ts";
import { eventually } from "../../services/kit/testing/testing.ts";
import { bringIn } from "../../test/support/door.ts";
import { openEvents } from "../../test/support/events.ts";
import { refusalOf } from "../testing/api-client.ts";
import { type TestPlatform, testPlatform } from "../testing/test-platform.ts";

let platform: TestPlatform;
let S: string;

/** What lines of these services say. */
const MESSAGES: Record<string, string> = {
  flood: "x".repeat(10_000),
  trickle: "x".repeat(2_000),
  large: "x".repeat(200_000),
};

/** Services of which nothing is sent until the test lets it. */
const held = new Map<string, { reached: () => void; release: Promise<void> }>();

/** The calls of FollowLogs under way at the deployer, by the service they follow. */
const calls = new Map<string, { sent: number; next: () => void; break: (error: Error) => void }>();

beforeAll(async () => {
  platform = await testPlatform({
    deployments: {
      async *followLogs({ service, lastEventId }, ctx) {
        if (service === "missing") throw notFound("service");
        held.get(service)?.reached();
        await held.get(service)?.release;
        yield {};
        const call = { sent: 0, next: () => {}, break: (_: Error) => {} };
        calls.set(service, call);
        ctx.signal.addEventListener("abort", () => call.next());
        try {
          for (let n = Number(lastEventId ?? 0) + 1; !ctx.signal.aborted; n++) {
            // These do not wait to be asked.
            if (service === "trickle") await new Promise(setImmediate);
            else if (service !== "flood")
              await new Promise<void>((resolve, reject) =>
                Object.assign(call, { next: resolve, break: reject }),
              );
            if (ctx.signal.aborted) return;
            const message = MESSAGES[service] ?? `line ${n}\r\nof two`;
            const line = {
              message,
              timestamp: timestampFromMs(0),
              stream: "stdout",
              replica: "0",
              version: 1,
            };
            yield { id: String(n), event: { case: "line", value: line } };
            call.sent = n;
          }
        } finally {
          calls.delete(service);
        }
      },
    },
  });
  const gateway = await platform.gateway();
  const accounts = await gateway.call("GET", "/accounts");
  const [account] = accounts.body.data as { id: string }[];
  S = `/accounts/${account!.id}/projects/prj_1/environments/env_1/services`;
});

afterAll(() => platform.stop());

const running = (name: string) => eventually(`${name} is followed`, async () => calls.get(name));
const gone = (name: string) => eventually(`the call for ${name} is over`, async () => !calls.has(name));
const open = (
  baseUrl: string,
  name: string,
  more: { token?: string; lastEventId?: string; method?: string } = {},
) => openEvents(`${baseUrl}${S}/${name}/logs`, { token: platform.ownerToken, ...more });

test("a script of another origin may follow one with its token", async () => {
  const { baseUrl } = await platform.gateway();
  const left = new AbortController();
  const headers = {
    authorization: `Bearer ${platform.ownerToken}`,
    accept: "text/event-stream",
    origin: "https://inspector.example",
  };
  const response = await fetch(`${baseUrl}${S}/scripted/logs`, { headers, signal: left.signal });
  expect(response.headers.get("content-type")).toMatch("text/event-stream");
  expect(response.headers.get("access-control-allow-origin")).toBe("*");
  await running("scripted");
  left.abort();
  await gone("scripted");
});

test("each message is one event with its position, and Last-Event-ID goes to the service", async () => {
  const { baseUrl } = await platform.gateway();
  const stream = await open(baseUrl, "plain", { lastEventId: "41" });
  (await running("plain")).next();
  const event = await stream.until("a line came", () => true);
  expect(event).toMatchObject({
    id: "42",
    event: "line",
    data: { message: "line 42\r\nof two", version: 1 },
  });
  expect(stream.text().split("\n")).toHaveLength(5);
  stream.close();
  await gone("plain");
});

test("HEAD answers the headers of a stream and follows nothing", async () => {
  const { baseUrl } = await platform.gateway();
  const head = await open(baseUrl, "head", { method: "HEAD" });
  await head.ended();
  expect([head.status, head.headers["content-type"], head.text()]).toEqual([
    200,
    "text/event-stream; charset=utf-8",
    "",
  ]);
  await gone("head");
});

describe("how many", () => {
  const limits = { RATE_LIMITS: "on" };
  const refused = async (gateway: Awaited<ReturnType<TestPlatform["gateway"]>>, name: string) => {
    const headers = { accept: "text/event-stream" };
    return gateway.call("GET", `${S}/${name}/logs`, undefined, { headers });
  };

  test("a user has at most five streams at a time, over all tokens and gateways; each that ends makes room", async () => {
    const [one, other] = [await platform.gateway(limits), await platform.gateway(limits)];
    const { body } = await one.call("POST", "/me/tokens", { name: "second" });
    const tokens = [platform.ownerToken, String(body.token)];
    const streams = await Promise.all(
      ["a", "b", "c", "d", "e"].map((name, n) =>
        open([one, other][n % 2]!.baseUrl, name, { token: tokens[n % 2]! }),
      ),
    );
    expect(streams.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200]);
    expect(Number(streams[0]!.headers["ratelimit-remaining"])).toBeLessThan(600);
    for (const gateway of [one, other]) {
      const answer = await refused(gateway, "f");
      expect([refusalOf(answer), answer.headers.get("retry-after")]).toEqual(["429 rate_limited", "5"]);
    }
    expect(refusalOf(await refused(one, "missing"))).toBe("429 rate_limited");
    expect((await one.call("GET", "/me")).status).toBe(200);
    streams[0]!.close();
    const again = await eventually("there is room", async () => {
      const stream = await open(other.baseUrl, "f");
      return stream.status === 200 && stream;
    });
    for (const stream of [...streams, again]) stream.close();
    await eventually("all are over", async () => calls.size === 0);
  });

  test("an account has so many users' streams, and one that its limit refuses takes no place of the user", async () => {
    const gateway = await platform.gateway({
      ...limits,
      STREAMS_PER_CALLER: "2",
      RATE_LIMIT_ACCOUNT_TIMES: "1",
    });
    const { token } = await bringIn(gateway.call, S.split("/projects")[0]!, "reader");
    const streams = await Promise.all(["g", "h"].map((name) => open(gateway.baseUrl, name, { token })));
    expect(streams.map(({ status }) => status)).toEqual([200, 200]);
    for (let n = 0; n < 3; n++) {
      const { body } = await refused(gateway, "i");
      expect((body.error as { message: string }).message).toBe(
        "At most 2 streams can be open at a time in this account. Close one first.",
      );
    }
    for (const stream of streams) stream.close();
    const again = await eventually("there is room", async () => {
      const stream = await open(gateway.baseUrl, "i");
      return stream.status === 200 && stream;
    });
    again.close();
    await eventually("all are over", async () => calls.size === 0);
  });

  test("a refused stream takes no place", async () => {
    const gateway = await platform.gateway(limits);
    for (let n = 0; n < 7; n++) expect(refusalOf(await refused(gateway, "missing"))).toBe("404 not_found");
  });

  test("the places of a gateway that was killed are free after a while", async () => {
    const gateway = await platform.gateway(limits);
    const me = await gateway.call("GET", "/me");
    const pool = createPool(platform.database.url("gateway"));
    const hold = (seconds: number) =>
      pool.query(
        `insert into streams (who, place, holder, held_until)
         select $1, n, 'killed', now() + make_interval(secs => $2) from generate_series(0, 4) n
         on conflict (who, place) do update set holder = 'killed', held_until = excluded.held_until`,
        [me.body.id, seconds],
      );
    await hold(60);
    expect(refusalOf(await refused(gateway, "later"))).toBe("429 rate_limited");
    await hold(-1);
    const stream = await open(gateway.baseUrl, "later");
    expect(stream.status).toBe(200);
    stream.close();
    await gone("later");
    await pool.end();
  });
});

test("a quiet stream says now and then that it lives", async () => {
  const { baseUrl } = await platform.gateway({ STREAM_HEARTBEAT_SECONDS: "1" });
  const stream = await open(baseUrl, "quiet");
  await eventually("two comments came", async () => stream.comments() >= 2);
  expect([stream.events, stream.isEnded()]).toEqual([[], false]);
  stream.close();
  await gone("quiet");
});

test("a stream ends when its token expires", async () => {
  const gateway = await platform.gateway({ STREAM_HEARTBEAT_SECONDS: "1" });
  const made = await gateway.call("POST", "/me/tokens", { name: "short" });
  const { id, token } = made.body as unknown as { id: string; token: string };
  const stream = await open(gateway.baseUrl, "expiring", { token });
  const pool = createPool(platform.database.url("identity"));
  const { rowCount } = await pool.query("update tokens set expires_at = now() where id = $1", [id]);
  await pool.end();
  expect(rowCount).toBe(1);
  await stream.ended();
  expect(stream.events).toMatchObject([{ event: "problem", data: { error: { code: "unauthenticated" } } }]);
  await gone("expiring");
});

test.each([
  ["at once", "flood"],
  ["one by one", "trickle"],
])(
  "a client that does not read events that come %s holds the service back, and gets all when it reads",
  async (_, name) => {
    const { baseUrl } = await platform.gateway();
    const stream = await open(baseUrl, name);
    stream.pause();
    const call = await running(name);
    let before = -1;
    // Sent as much as fits between the two, and then no more.
    await eventually("the service is held back", async () => {
      const same = call.sent > 0 && call.sent === before;
      before = call.sent;
      await new Promise((next) => setTimeout(next, 200));
      return same;
    });
    const held = call.sent;
    expect(held * MESSAGES[name]!.length).toBeLessThan(64 * 1024 * 1024);
    stream.resume();
    await stream.until("all that was held came", ({ id }) => Number(id) > held);
    expect(stream.events.map(({ id }) => Number(id))).toEqual(stream.events.map((_, n) => n + 1));
    stream.close();
    await gone(name);
  },
);

test("an event that fills the buffer is followed by others", async () => {
  const { baseUrl } = await platform.gateway();
  const stream = await open(baseUrl, "large");
  for (const id of ["1", "2", "3"]) {
    (await running("large")).next();
    await stream.until(`line ${id}`, (event) => event.id === id);
  }
  stream.close();
  await gone("large");
});

test("a gateway that stops ends its streams at once with a hint when to come back", async () => {
  const gateway = await platform.gateway();
  const stream = await open(gateway.baseUrl, "stopping");
  await running("stopping");
  await gateway.stop();
  await stream.ended();
  expect(stream.events).toEqual([]);
  expect(stream.retry()).toBeGreaterThanOrEqual(500);
  await gone("stopping");
});

test("a token that is revoked at one gateway ends its streams at the others", async () => {
  const [one, other] = [
    await platform.gateway({ STREAM_HEARTBEAT_SECONDS: "120" }),
    await platform.gateway(),
  ];
  const made = await other.call("POST", "/me/tokens", { name: "elsewhere" });
  const { id, token } = made.body as unknown as { id: string; token: string };
  const stream = await open(one.baseUrl, "revoked", { token });
  expect((await other.call("DELETE", `/me/tokens/${id}`)).status).toBe(204);
  await stream.ended();
  expect(stream.events).toMatchObject([{ event: "problem", data: { error: { code: "unauthenticated" } } }]);
  await gone("revoked");
});

test("a token that is revoked while a stream is being opened ends it as soon as it is open", async () => {
  const [one, other] = [
    await platform.gateway({ STREAM_HEARTBEAT_SECONDS: "120" }),
    await platform.gateway(),
  ];
  const made = await other.call("POST", "/me/tokens", { name: "opening" });
  const { id, token } = made.body as unknown as { id: string; token: string };
  const [reached, release] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  held.set("opening", { reached: reached.resolve, release: release.promise });
  const opened = open(one.baseUrl, "opening", { token });
  await reached.promise;
  expect((await other.call("DELETE", `/me/tokens/${id}`)).status).toBe(204);
  await eventually("the other gateway refuses it", async () => {
    return (await one.call("GET", "/me", undefined, { token })).status === 401;
  });
  release.resolve();
  const stream = await opened;
  await stream.ended();
  expect(stream.events).toMatchObject([{ event: "problem", data: { error: { code: "unauthenticated" } } }]);
  await gone("opening");
});

test("a service that stops ends the stream with a hint to come back; what it did not foresee is not told", async () => {
  const { baseUrl } = await platform.gateway();
  const stream = await open(baseUrl, "broken");
  (await running("broken")).break(new Error("secret sentence"));
  await stream.ended();
  expect(stream.events).toMatchObject([{ event: "problem", data: { error: { code: "internal" } } }]);
  expect(stream.text()).not.toContain("secret");
  const other = await open(baseUrl, "away");
  (await running("away")).break(unavailable());
  await other.ended();
  expect([other.events, other.retry()]).toEqual([[], expect.any(Number)]);

  const lonely = await platform.gateway({ DEPLOYER_URL: "http://127.0.0.1:1" });
  const headers = { accept: "text/event-stream" };
  const answer = await lonely.call("GET", `${S}/web/logs`, undefined, { headers });
  expect([refusalOf(answer), answer.headers.get("retry-after")]).toEqual(["503 unavailable", "1"]);
});
