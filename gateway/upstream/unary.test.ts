import { once } from "node:events";
import http from "node:http";
import net, { type AddressInfo } from "node:net";
import { setImmediate as endOfTurn } from "node:timers/promises";
import { afterEach, expect, test } from "vitest";
import { createUnaryClient, type UpstreamResponse } from "./unary.ts";

const stops: (() => unknown)[] = [];

afterEach(async () => {
  for (const stop of stops.splice(0).reverse()) await stop();
});

async function listening(server: net.Server): Promise<string> {
  await once(server.listen(0, "127.0.0.1"), "listening");
  stops.push(() => server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

function clientOf(origin: string, max?: number) {
  const client = createUnaryClient(origin, max);
  stops.push(() => client.close());
  return client;
}

/** Starts an HTTP server whose answers are the requests' bodies; returns the port of the peer of each request. */
async function echo(answer?: (res: http.ServerResponse, asked: number) => void) {
  const peers: number[] = [];
  const seen: http.IncomingHttpHeaders[] = [];
  const server = http.createServer(async (req, res) => {
    let body = "";
    for await (const chunk of req.setEncoding("utf8")) body += chunk;
    peers.push(req.socket.remotePort!);
    seen.push(req.headers);
    answer?.(res, peers.length);
    if (!res.destroyed) res.end(body);
  });
  return { peers, seen, origin: await listening(server) };
}

/** Starts a server that answers the n-th connection's first bytes with the n-th text, and then closes it. */
async function script(...texts: string[]) {
  let connections = 0;
  const server = net.createServer((socket) => {
    const text = texts[connections++] ?? "";
    socket.on("error", () => {}).once("data", () => socket.end(text));
  });
  return { origin: await listening(server), connections: () => connections };
}

const OK = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
const textOf = ({ body }: UpstreamResponse) => body.toString();

test("messages arrive as they are: ASCII, other text, bytes, and more than a socket takes at once", async () => {
  const { origin, seen } = await echo();
  const client = clientOf(origin);
  const large = "ü".repeat(2_000_000);
  for (const message of ["{}", '{"a":"ä€😀"}', Buffer.from('{"b":"ä"}'), large, Buffer.from(large)])
    expect(textOf(await client.call("/x", ["x-one", "ä"], message, true)) === message.toString()).toBe(true);
  expect(seen[0]).toMatchObject({ host: new URL(origin).host, "x-one": "ä" });
});

test("a few connections carry many calls at once, never more than allowed", async () => {
  const { origin, peers } = await echo();
  const client = clientOf(origin, 3);
  const messages = Array.from({ length: 20 }, (_, i) => String(i));
  const answers = await Promise.all(messages.map((message) => client.call("/x", [], message, true)));
  expect(answers.map(textOf)).toEqual(messages);
  expect(new Set(peers).size).toBe(3);
});

test("a connection that its service wants closed carries no further call", async () => {
  const { origin, peers } = await echo((res) => res.setHeader("connection", "close"));
  const client = clientOf(origin, 1);
  const answers = await Promise.all(["1", "2", "3"].map((message) => client.call("/x", [], message, false)));
  expect(answers.map(textOf)).toEqual(["1", "2", "3"]);
  expect(new Set(peers).size).toBe(3);
});

test("a safe call whose connection breaks is sent once more, another is not", async () => {
  const broken = await script("", OK);
  expect(textOf(await clientOf(broken.origin).call("/x", [], "{}", true))).toBe("{}");
  const unsafe = await script("", OK);
  await expect(clientOf(unsafe.origin).call("/x", [], "{}", false)).rejects.toThrow(/other side closed/);
  expect(unsafe.connections()).toBe(1);
  const twice = await script("", "HTTP/1.1 200 OK\r\ncontent-le", OK);
  await expect(clientOf(twice.origin).call("/x", [], "{}", true)).rejects.toThrow(/other side closed/);
});

test("a call that no process accepts is tried again, whether it is safe or not", async () => {
  const server = net.createServer((socket) => socket.once("data", () => socket.end(OK)));
  const origin = await listening(server);
  server.close();
  for (const safe of [true, false]) {
    const call = clientOf(origin).call("/x", [], "{}", safe);
    // Until it was refused.
    for (let turn = 0; turn < 5; turn++) await endOfTurn();
    server.listen(Number(new URL(origin).port), "127.0.0.1");
    expect(textOf(await call)).toBe("{}");
    server.close();
  }
  await expect(clientOf(origin).call("/x", [], "{}", false)).rejects.toThrow("ECONNREFUSED");
});

test("after a failure the next call finds the service again", async () => {
  const { origin } = await echo((res, asked) => void (asked === 1 && res.destroy()));
  const client = clientOf(origin, 1);
  await expect(client.call("/x", [], "1", false)).rejects.toThrow(/other side closed|ECONNRESET/);
  expect(textOf(await client.call("/x", [], "2", false))).toBe("2");
});

test("an answer that nobody asked for is no later call's", async () => {
  const { origin } = await script(`${OK}HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nbad`, OK);
  const client = clientOf(origin, 1);
  expect(textOf(await client.call("/x", [], "{}", false))).toBe("{}");
  expect(textOf(await client.call("/x", [], "{}", false))).toBe("{}");
});

test("closing waits for calls under way", async () => {
  const asked = Promise.withResolvers<http.ServerResponse>();
  const server = http.createServer((_req, res) => asked.resolve(res));
  const client = createUnaryClient(await listening(server));
  const call = client.call("/x", [], "{}", true);
  const response = await asked.promise;
  const closed = client.close();
  response.end("late");
  expect(await Promise.race([closed, call.then(textOf)])).toBe("late");
  await closed;
});
