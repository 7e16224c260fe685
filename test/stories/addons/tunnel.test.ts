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

type Tunnel = { path: string; expiresAt: string; user?: string; password: string; database?: string };
const openTunnel = (body = {}, service = S) => world.must<Tunnel>("POST", `${service}/tunnel`, body);
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

async function connectThrough({ path, user, password, database }: Tunnel, ssl = false) {
  const tunnel = at(path);
  await once(tunnel, "open");
  const port = await portThrough(tunnel);
  const client = new pg.Client({ host: "127.0.0.1", port, user, password, database, ssl });
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
  const opened = await openTunnel();
  expect(Date.parse(opened.expiresAt) - Date.now()).toBeGreaterThan(4 * 60_000);
  const [one, other] = [await connectThrough(opened), await connectThrough(opened)];
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
  const third = await connectThrough(opened);
  await eventually("its connection at the server has ended", async () => {
    const text = "select from pg_stat_activity where pid = $1";
    return (await third.client.query(text, [mine[0].pid])).rowCount === 0;
  });
  await third.client.end();
});

test("clients log in with the password of their tunnel, or that of the addon", async () => {
  const opened = await openTunnel();
  expect(opened).toMatchObject({ user: url.username, database: url.pathname.slice(1) });
  expect(opened.password).not.toBe(url.password);
  const { client } = await connectThrough({ ...opened, password: url.password });
  await client.end();
  const wrong = expect.objectContaining({
    code: "28P01",
    message: "The password is not that of this tunnel.",
  });
  await expect(connectThrough({ ...opened, password: (await openTunnel()).password })).rejects.toEqual(wrong);
  await expect(connectThrough({ ...opened, password: "" })).rejects.toThrow("password");
  // What the server itself refuses.
  const none = expect.objectContaining({ code: "3D000" });
  await expect(connectThrough({ ...opened, database: "none" })).rejects.toEqual(none);
  await expect(connectThrough({ ...opened, user: "somebody" })).rejects.toMatchObject({ code: "28P01" });
  // It is worth nothing where there is no tunnel.
  const direct = new pg.Client({
    connectionString: Object.assign(new URL(url), opened, { pathname: url.pathname }).href,
  });
  await expect(direct.connect()).rejects.toMatchObject({ code: "28P01" });
  const chosen = "chosen-by-the-client_0123456789";
  const again = await openTunnel({ password: chosen });
  expect(again.password).toBe(chosen);
  await (await connectThrough(again)).client.end();
  const { status, body } = await world.call("POST", `${S}/tunnel`, { password: "too short" });
  expect([status, body.error]).toMatchObject([
    422,
    { details: [{ path: "password", reason: "invalid_password" }] },
  ]);
});

test("a statement is canceled through a tunnel", async () => {
  const opened = await openTunnel();
  const { client } = await connectThrough(opened);
  const { processID, secretKey } = client as unknown as Record<"processID" | "secretKey", number>;
  const slow = client.query("select pg_sleep(300)").catch((error: Error) => error.message);
  const cancel = Buffer.alloc(16);
  for (const [at, value] of [16, 80877102, processID, secretKey].entries())
    cancel.writeInt32BE(value, at * 4);
  const canceled = eventually("the statement has begun and is canceled", async () => {
    const tunnel = at(opened.path);
    await once(tunnel, "open");
    tunnel.send(cancel);
    await once(tunnel, "close");
    return Promise.race([slow, undefined]);
  });
  expect(await canceled).toBe("canceling statement due to user request");
  await client.end();
});

test("what does not speak the protocol, or breaks off, is disconnected", async () => {
  const opened = await openTunnel();
  const started = Buffer.concat([int32(22), int32(196608), Buffer.from("user\0someone\0\0")]);
  for (const bytes of [
    Buffer.from("GET / HTTP/1.1\r\n\r\n"),
    Buffer.alloc(8),
    Buffer.concat([int32(2 ** 31 - 1), int32(196608)]),
    Buffer.concat([started, Buffer.from("p"), int32(2 ** 31 - 1)]),
    Buffer.concat([started, Buffer.from("p"), int32(0)]),
  ]) {
    const tunnel = at(opened.path);
    await once(tunnel, "open");
    tunnel.send(bytes);
    await once(tunnel, "close");
  }
  for (const bytes of [Buffer.alloc(0), started.subarray(0, 3), started]) {
    const tunnel = at(opened.path);
    await once(tunnel, "open");
    tunnel.send(bytes);
    tunnel.close();
    await once(tunnel, "close");
  }
  const { client } = await connectThrough(opened);
  await eventually("no connection is left at the server", async () => {
    const text = "select from pg_stat_activity where usename in ($1, 'someone') and pid <> pg_backend_pid()";
    return (await client.query(text, [url.username])).rowCount === 0;
  });
  await client.end();
});

function int32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32BE(value);
  return bytes;
}

test("clients of redis log in with the password of their tunnel too", async () => {
  const { E, S: service } = await world.environment();
  await world.must("POST", `${E}/services`, { name: "cache", type: "redis" });
  await world.must("POST", `${E}/variables`, { name: "URL", connection: { service: "cache", key: "URL" } });
  const { password: own } = await eventually("the addon has an address", async () => {
    const { status, body } = await world.call<{ value: string }>("POST", `${E}/variables/URL/reveal`);
    return status === 200 && new URL(body.value);
  });
  const { path, password, user } = await openTunnel({}, service("cache"));
  expect(user).toBeUndefined();
  /** Sends each part by itself, and returns all replies once there are as many lines. */
  const replies = async (parts: (string | Buffer)[], lines: number) => {
    const tunnel = at(path);
    await once(tunnel, "open");
    let text = "";
    tunnel.on("message", (data) => {
      text += data;
    });
    for (const part of parts) tunnel.send(part);
    await eventually("all replies are there", async () => text.split("\r\n").length > lines);
    tunnel.terminate();
    return text;
  };
  const command = (...words: string[]) =>
    `*${words.length}\r\n${words.map((word) => `$${word.length}\r\n${word}\r\n`).join("")}`;
  expect(await replies([command("PING")], 1)).toMatch(/^-NOAUTH/);
  for (const known of [password, own]) {
    expect(await replies([command("AUTH", known), command("PING")], 2)).toBe("+OK\r\n+PONG\r\n");
    expect(await replies([command("auth", "default", known) + command("PING")], 2)).toBe("+OK\r\n+PONG\r\n");
    expect(await replies([`AUTH ${known}\r\nPING\r\n`], 2)).toBe("+OK\r\n+PONG\r\n");
  }
  const hello =
    command("HELLO", "3", "AUTH", "default", password, "SETNAME", "me") + command("CLIENT", "GETNAME");
  expect(await replies([...hello], 16)).toMatch(/^%[\s\S]*\r\nme\r\n$/);
  expect(await replies([command("PING"), command("AUTH", "wrong"), command("PING")], 3)).toMatch(
    /^-NOAUTH[^\n]*\n-WRONGPASS[^\n]*\n-NOAUTH/,
  );
  // What is long before it is known where it ends goes on as it is.
  const large = command("SET", "k", "x".repeat(100_000));
  expect(await replies([command("AUTH", password), large], 2)).toBe("+OK\r\n+OK\r\n");
  for (const odd of ["*1000000000\r\n$-1\r\n", "*2\r\n$-5\r\n$-5\r\n", "\0".repeat(9_000)]) {
    const tunnel = at(path);
    await once(tunnel, "open");
    tunnel.send(odd);
    tunnel.send("\r\n".repeat(9_000));
    tunnel.terminate();
  }
  expect(await replies([command("AUTH", password)], 1)).toBe("+OK\r\n");
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
  type Page = { data: { action: string; target: string }[] };
  const recorded = async () => {
    const { data } = await world.must<Page>("GET", `${world.A}/audit-events`);
    return data.filter(({ action, target }) => action === "service.tunnel" && target === id);
  };
  const before = (await recorded()).length;
  await openTunnel();
  await eventually("it is in the audit log", async () => (await recorded()).length > before);
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
