import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { createRandom } from "../../../../kit/testing/random.ts";
import { waitUntilHealthy } from "../service/replicas/health-check.ts";
import { type Router, startRouter } from "./router.ts";

// Apps and clients here are plain sockets that send whatever they like to the real router.

const log = { info() {}, warn() {}, error: console.error };
let router: Router;
let app: Server;
let appPort: number;
/** What the app answers to whatever it is asked, before it closes the connection. */
let answer: Buffer;
let other: Server;

beforeAll(async () => {
  router = await startRouter({ port: 0, log });
  app = createServer((socket) => {
    socket.on("error", () => {}).once("data", () => socket.end(answer));
  });
  other = createServer((socket) => {
    socket
      .on("error", () => {})
      .on("data", () => socket.write("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"));
  });
  appPort = await portOf(app);
  router.route("hostile", [{ host: "127.0.0.1", port: appPort }]);
  router.route("other", [{ host: "127.0.0.1", port: await portOf(other) }]);
});
afterAll(async () => {
  await router.close();
  app.close();
  other.close();
});

async function portOf(server: Server): Promise<number> {
  await once(server.listen(0, "127.0.0.1"), "listening");
  return (server.address() as AddressInfo).port;
}

/** Everything that comes back for these bytes until the connection is closed. */
async function say(bytes: string | Buffer): Promise<string> {
  const socket = connect(router.port, "127.0.0.1");
  const broken = once(socket, "error").then(() => "");
  socket.write(bytes);
  return Promise.race([text(socket.setEncoding("latin1")).catch(() => ""), broken]);
}

const ask = (label: string, method = "GET", more = "connection: close") =>
  say(`${method} / HTTP/1.1\r\nhost: ${label}.localhost\r\n${more}\r\n\r\n`);
const upgrade = () => ask("hostile", "GET", "connection: upgrade\r\nupgrade: websocket");
const statusOf = (said: string) => Number(/^HTTP\/1\.1 (\d{3}) /.exec(said)?.[1]);
const answers = (said: string | Buffer) => {
  answer = Buffer.from(said as string, "latin1");
};

const improper: Record<string, string> = {
  "status 000": "HTTP/1.1 000 Nothing\r\ncontent-length: 0\r\n\r\n",
  "status 099": "HTTP/1.1 099 Nothing\r\ncontent-length: 0\r\n\r\n",
  "status 600": "HTTP/1.1 600 Much\r\ncontent-length: 0\r\n\r\n",
  "status 999": "HTTP/1.1 999 Much\r\ncontent-length: 0\r\n\r\n",
  "a status of two digits": "HTTP/1.1 20 OK\r\ncontent-length: 0\r\n\r\n",
  "control characters in the reason": "HTTP/1.1 200 O\x01K\r\ncontent-length: 0\r\n\r\n",
  "DEL in the reason": "HTTP/1.1 200 O\x7fK\r\ncontent-length: 0\r\n\r\n",
  "NUL in the reason": "HTTP/1.1 200 O\0K\r\ncontent-length: 0\r\n\r\n",
  "control characters in a header": "HTTP/1.1 200 OK\r\nx-a: \x01\x02\r\ncontent-length: 0\r\n\r\n",
  "NUL in a header": "HTTP/1.1 200 OK\r\nx-a: a\0b\r\ncontent-length: 0\r\n\r\n",
  "a header name with a space": "HTTP/1.1 200 OK\r\nx a: b\r\ncontent-length: 0\r\n\r\n",
  "a header name in brackets": "HTTP/1.1 200 OK\r\n(x): b\r\ncontent-length: 0\r\n\r\n",
  "two lengths": "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
  "a length that is no number": "HTTP/1.1 200 OK\r\ncontent-length: many\r\n\r\nab",
  "a negative length": "HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\nab",
  "a length and chunks":
    "HTTP/1.1 200 OK\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
  "headers without end": "HTTP/1.1 200 OK\r\nx-a: b\r\n",
  "headers of 100 KiB": `HTTP/1.1 200 OK\r\nx-a: ${"a".repeat(100 * 1024)}\r\n\r\n`,
  "only informational answers": "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n".repeat(20),
  "a 101 without an upgrade": "HTTP/1.1 101 Switching Protocols\r\n\r\nhello",
  "another protocol": "SSH-2.0-OpenSSH_9.2p1\r\n",
  "a preface of HTTP/2": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
  "a request": "GET / HTTP/1.1\r\nhost: a\r\n\r\n",
  nothing: "",
};

describe("whatever an app answers", () => {
  test.each(Object.entries(improper))("%s is 502, for requests and for upgrades", async (_, said) => {
    answers(said);
    expect(statusOf(await ask("hostile"))).toBe(502);
    expect(statusOf(await ask("hostile", "POST", "connection: close\r\ncontent-length: 0"))).toBe(502);
    expect(statusOf(await upgrade())).toBe(502);
    expect(statusOf(await ask("other", "GET"))).toBe(200);
  });

  test("a 101 that nobody asked for is 502", async () => {
    answers("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\nhello");
    expect(statusOf(await ask("hostile"))).toBe(502);
    expect(statusOf(await ask("hostile", "POST", "connection: close\r\ncontent-length: 0"))).toBe(502);
  });

  test("a 101 that cannot be passed on is 502", async () => {
    answers("HTTP/1.1 101 \x01\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\nhello");
    expect(statusOf(await upgrade())).toBe(502);
  });

  test("an answer that breaks off, or goes on as it may not, breaks the connection or ends there", async () => {
    for (const said of [
      "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf",
      "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\nZZ\r\nworld",
      "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello",
      "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffffff\r\nhello",
      "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\nx-\x01: a\r\n\r\n",
    ]) {
      answers(said);
      expect(await ask("hostile")).not.toMatch(/\r\n0\r\n\r\n$/);
      await upgrade();
      expect(statusOf(await ask("other"))).toBe(200);
    }
  });

  test("a body where none belongs stays out of the next answer", async () => {
    const get = "GET / HTTP/1.1\r\nhost: other.localhost\r\nconnection: close\r\n\r\n";
    for (const [method, head] of [
      ["HEAD", "HTTP/1.1 200 OK\r\ncontent-length: 4"],
      ["GET", "HTTP/1.1 204 No Content\r\ncontent-length: 4"],
      ["GET", "HTTP/1.1 304 Not Modified\r\ncontent-length: 4"],
    ] as const) {
      answers(`${head}\r\n\r\nevil`);
      const said = await say(`${method} / HTTP/1.1\r\nhost: hostile.localhost\r\n\r\n${get}`);
      expect(said).not.toContain("evil");
      expect(said.match(/HTTP\/1\.1 \d{3}/g)).toEqual([head.slice(0, 12), "HTTP/1.1 200"]);
    }
  });

  test("early hints and a 100 before the answer are no answer", async () => {
    answers(
      "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\n\r\nHTTP/1.1 201 Made\r\ncontent-length: 2\r\n\r\nok",
    );
    const said = await ask("hostile");
    expect([statusOf(said), said.slice(-2)]).toEqual([201, "ok"]);
  });

  test("broken in 500 ways, it never ends or hangs the router", async () => {
    const { below: random } = createRandom(inject("seed"));
    const valid = [
      "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 5\r\n\r\nhello",
      "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x-a\r\n\r\n5\r\nhello\r\n0\r\nx-a: b\r\n\r\n",
      "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\nhello",
      "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nHTTP/1.1 304 Not Modified\r\netag: a\r\n\r\n",
      ...Object.values(improper).filter((said) => said.length < 1024),
    ].map((said) => Buffer.from(said, "latin1"));
    for (let n = 0; n < 500; n++) {
      answer = broken(valid[random(valid.length)]!, random);
      const about = `round ${n}: ${JSON.stringify(answer.toString("latin1"))}`;
      const said = await (n % 3 === 0 ? upgrade() : ask("hostile", n % 3 === 1 ? "GET" : "HEAD"));
      if (said !== "") expect(statusOf(said), about).toBeGreaterThanOrEqual(101);
      if (n % 50 === 0) expect(statusOf(await ask("other")), about).toBe(200);
    }
  });

  test("a 101 to a health check means not healthy, and the check goes on", async () => {
    answers("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n");
    const healthy = waitUntilHealthy(appPort, "/", new AbortController().signal);
    await once(app, "connection");
    await once(app, "connection");
    answers("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    expect(await healthy).toBe("127.0.0.1");
  });
});

describe("whatever a client sends", () => {
  const requests = [
    "",
    "\r\n\r\n",
    "\0\0\0\0\r\n\r\n",
    "GET\r\n\r\n",
    "GET / HTTP/1.1\r\n\r\n",
    "GET http://[ HTTP/1.1\r\nhost: hostile.localhost\r\nconnection: close\r\n\r\n",
    "GET //[ HTTP/1.1\r\nhost: hostile.localhost\r\nconnection: close\r\n\r\n",
    "OPTIONS * HTTP/1.1\r\nhost: hostile.localhost\r\nconnection: close\r\n\r\n",
    "CONNECT hostile.localhost:80 HTTP/1.1\r\nhost: hostile.localhost\r\n\r\n",
    "GET /\xff\x80 HTTP/1.1\r\nhost: hostile.localhost\r\nconnection: close\r\n\r\n",
    "GET / HTTP/1.1\r\nhost: hostile.localhost\r\nx-a: \x01\r\nconnection: close\r\n\r\n",
    "GET / HTTP/1.1\r\nhost: hostile.localhost\r\nx-a: \xff\x7f\r\nconnection: close\r\n\r\n",
    "GET / HTTP/1.1\r\nhost: hostile.localhost\r\nhost: other.localhost\r\nconnection: close\r\n\r\n",
    "GET / HTTP/1.1\r\nhost: \xff\r\nconnection: close\r\n\r\n",
    "GET / HTTP/1.1\r\nhost: hostile.localhost\r\nexpect: the-unexpected\r\nconnection: close\r\n\r\n",
    "POST / HTTP/1.1\r\nhost: hostile.localhost\r\nexpect: 100-continue\r\ncontent-length: 2\r\nconnection: close\r\n\r\nab",
    "POST / HTTP/1.1\r\nhost: hostile.localhost\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nhost: hostile.localhost\r\ntransfer-encoding: chunked\r\n\r\nZZ\r\n",
    "GET / HTTP/1.1\r\nhost: hostile.localhost\r\nconnection: upgrade, host\r\nupgrade: \xff\xfe\r\n\r\ngarbage",
    "GET / HTTP/1.1\r\nhost: hostile.localhost\r\nconnection: upgrade\r\nupgrade: a, b\r\ncontent-length: 9\r\n\r\nx",
    `GET / HTTP/1.1\r\nhost: hostile.localhost\r\nx-a: ${"a".repeat(100 * 1024)}\r\n\r\n`,
  ];

  test.each(requests)("the router outlives %j", async (request) => {
    answers("HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    const socket = connect(router.port, "127.0.0.1").on("error", () => {});
    await once(socket, "connect");
    socket.end(Buffer.from(request, "latin1"));
    await text(socket).catch(() => "");
    expect(statusOf(await ask("other"))).toBe(200);
  });

  test("a client that leaves in the middle of anything is no trouble", async () => {
    answers("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\nhello");
    const sockets: Socket[] = [];
    for (let n = 0; n < 50; n++) {
      const socket = connect(router.port, "127.0.0.1").on("error", () => {});
      sockets.push(socket);
      await once(socket, "connect");
      const upgrading = n % 2 ? "connection: upgrade\r\nupgrade: websocket\r\n" : "";
      socket.write(`GET / HTTP/1.1\r\nhost: hostile.localhost\r\n${upgrading}\r\n`);
      setImmediate(() => socket.resetAndDestroy());
    }
    await Promise.all(sockets.map((socket) => socket.closed || once(socket, "close")));
    await router.drained({ host: "127.0.0.1", port: appPort }, 60_000);
    expect(statusOf(await ask("other"))).toBe(200);
  });
});

/** The message with some of its bytes changed, cut out or doubled. */
function broken(message: Buffer, random: (below: number) => number): Buffer {
  const bytes = [...message];
  for (let changes = 1 + random(3); changes > 0; changes--) {
    const at = random(bytes.length + 1);
    const kind = random(4);
    if (kind === 0) bytes.splice(at, 1, random(256));
    else if (kind === 1) bytes.splice(at, random(12));
    else if (kind === 2) bytes.splice(at, 0, random(32));
    else bytes.splice(at, 0, ...bytes.slice(at, at + random(12)));
  }
  return Buffer.from(bytes);
}
