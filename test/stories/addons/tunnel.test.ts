import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { type IncomingMessage, request } from "node:http";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { pipeline } from "node:stream/promises";
import pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createWebSocketStream, WebSocket } from "ws";
import { TUNNELS } from "../../../services/deployer/addons/tunnels/ticket.ts";
import { eventually } from "../../../services/kit/testing/testing.ts";
import { startWorld, type World } from "../../support/world.ts";

let world: World;
let S: string;
let url: URL;

beforeAll(async () => {
  world = await startWorld();
  const { E, S: service } = await world.environment();
  S = service("db");
  await world.must("POST", `${E}/services`, { name: "db", type: "postgres" });
  await world.must("POST", `${E}/services`, { name: "web", type: "web" });
  await world.must("POST", `${E}/variables`, { name: "URL", connection: { service: "db", key: "URL" } });
  url = await eventually("the addon has an address", async () => {
    const { status, body } = await world.call<{ value: string }>("POST", `${E}/variables/URL/reveal`);
    return status === 200 && new URL(body.value);
  });
});
afterAll(() => world?.stop());

const openTunnel = () => world.must<{ path: string; expiresAt: string }>("POST", `${S}/tunnel`);
const at = (path: string) => new WebSocket(world.origin.replace(/^http/, "ws") + path);

/** A port of this machine whose next connection goes through a tunnel. */
async function portThrough(tunnel: WebSocket) {
  const server = createServer((socket: Socket) => {
    const stream = createWebSocketStream(tunnel);
    pipeline(socket, stream, socket).catch(() => {});
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
}

async function connectThrough(path: string) {
  const tunnel = at(path);
  await once(tunnel, "open");
  const port = await portThrough(tunnel);
  const client = new pg.Client({
    connectionString: Object.assign(new URL(url), { host: `127.0.0.1:${port}` }).href,
  });
  client.on("error", () => {});
  await client.connect();
  return { tunnel, client };
}

/** Returns how the handshake of a WebSocket is answered. */
async function answerAt(path: string, headers: Record<string, string> = {}) {
  const handshake = {
    connection: "Upgrade",
    upgrade: "websocket",
    "sec-websocket-version": "13",
    "sec-websocket-key": randomBytes(16).toString("base64"),
  };
  const asked = request(new URL(world.origin), { path, headers: { ...handshake, ...headers } });
  asked.end();
  const answered = Promise.race([once(asked, "response"), once(asked, "upgrade")]);
  const [answer, socket] = (await answered) as [IncomingMessage, Socket?];
  if (answer.statusCode === 101) {
    socket!.destroy();
    return { status: 101 };
  }
  let text = "";
  for await (const chunk of answer) text += chunk;
  return { status: answer.statusCode, requestId: answer.headers["x-request-id"], ...JSON.parse(text) };
}

test("a WebSocket is a connection to the server of an addon, with all bytes in both directions", async () => {
  const { path, expiresAt } = await openTunnel();
  expect(Date.parse(expiresAt) - Date.now()).toBeGreaterThan(4 * 60_000);
  const [one, other] = [await connectThrough(path), await connectThrough(path)];
  const sent = randomBytes(8 * 1024 * 1024);
  await one.client.query("create table files (content bytea)");
  await one.client.query("insert into files values ($1)", [sent]);
  const { rows } = await other.client.query("select content from files");
  const hash = (bytes: Buffer) => createHash("sha256").update(bytes).digest("hex");
  expect(hash(rows[0].content)).toBe(hash(sent));
  await one.client.end();
  await eventually("the WebSocket ends with the connection", async () => one.tunnel.readyState === 3);
  // A client that is gone leaves no connection at the server.
  const { rows: mine } = await other.client.query("select pg_backend_pid() as pid");
  other.tunnel.terminate();
  const third = await connectThrough(path);
  await eventually("its connection at the server has ended", async () => {
    const text = "select from pg_stat_activity where pid = $1";
    return (await third.client.query(text, [mine[0].pid])).rowCount === 0;
  });
  await third.client.end();
});

test("editors open tunnels, of addons that are ready, and it is in the audit log", async () => {
  const { token } = await world.member("reader");
  const refusal = async (path: string, more = {}) => {
    const { status, body } = await world.call("POST", path, {}, more);
    return `${status} ${body.error?.details[0]?.reason ?? body.error?.code}`;
  };
  expect(await refusal(`${S}/tunnel`, { token })).toBe("403 forbidden");
  const web = S.replace(/db$/, "web");
  expect(await refusal(`${web}/tunnel`)).toBe("422 not_addon");
  expect(await refusal(`${web.replace(/web$/, "none")}/tunnel`)).toBe("404 not_found");
  const { id } = await world.must<{ id: string }>("GET", S);
  await openTunnel();
  const { data } = await world.must<{ data: { action: string; target: string }[] }>(
    "GET",
    `${world.A}/audit-events`,
  );
  expect(data.find(({ action }) => action === "service.tunnel")).toMatchObject({ target: id });
});

test("no other path leads to an addon, and refusals are in the error envelope", async () => {
  const { path } = await openTunnel();
  const forbidden = { status: 403, error: { code: "forbidden" } };
  expect(await answerAt(path)).toEqual({ status: 101 });
  const changed = path.slice(0, -2) + (path.endsWith("AA") ? "BB" : "AA");
  for (const wrong of [
    changed,
    TUNNELS,
    `${TUNNELS}${"x".repeat(4_000)}`,
    `${path}?more`,
    `${TUNNELS}../metrics`,
  ]) {
    const answer = await answerAt(wrong);
    expect(answer).toMatchObject(forbidden);
    expect(answer.error.requestId).toBe(answer.requestId);
  }
  // What is no WebSocket, and what asks for another protocol elsewhere.
  expect(await answerAt(path, { "sec-websocket-version": "7" })).toMatchObject({ status: 400 });
  const plain = await fetch(world.origin + path);
  expect([plain.status, await plain.json()]).toMatchObject([400, { error: { code: "malformed_request" } }]);
  const other = await answerAt("/v1/accounts", { upgrade: "h2c" });
  expect(other).toMatchObject({ status: 401, error: { code: "unauthenticated" } });
});

test("a message that is too long ends its connection", async () => {
  const { path } = await openTunnel();
  const tunnel = at(path);
  await once(tunnel, "open");
  tunnel.send(Buffer.alloc(1024 * 1024));
  expect((await once(tunnel, "close"))[0]).toBe(1009);
});

test("32 connections of an account can be open, and a deleted addon has none", async () => {
  const { path } = await openTunnel();
  const all: WebSocket[] = [];
  const openOne = async () => {
    const one = at(path);
    await once(one, "open").then(
      () => all.push(one),
      () => {},
    );
  };
  await Promise.all(Array.from({ length: 40 }, openOne));
  expect(all.length).toBeLessThanOrEqual(32);
  // Those of the tests above may just be ending.
  while (all.length < 32) await openOne();
  expect(await answerAt(path)).toMatchObject({ status: 503, error: { code: "unavailable" } });
  for (const one of all) one.terminate();
  await eventually("they are closed", async () => (await answerAt(path)).status === 101);
  await world.must("DELETE", S, { confirmImpact: true });
  expect(await answerAt(path)).toMatchObject({ status: 404, error: { code: "not_found" } });
});
