import { once } from "node:events";
import { createServer, type IncomingMessage, type RequestListener, request, type Server } from "node:http";
import { type AddressInfo, connect, createServer as createTcpServer, type Socket } from "node:net";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Address } from "./proxy.ts";
import { type Router, startRouter } from "./router.ts";

const log = { info() {}, warn() {}, error: console.error };
const host = "web-production-shop.localhost";
let router: Router;
const servers: Server[] = [];

beforeEach(async () => {
  router = await startRouter({ port: 0, log });
});
afterEach(async () => {
  await router.close();
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
});

async function startApp(listener: RequestListener, configure?: (server: Server) => void): Promise<Address> {
  const server = createServer(listener);
  configure?.(server);
  servers.push(server);
  await once(server.listen(0, "127.0.0.1"), "listening");
  return { host: "127.0.0.1", port: (server.address() as AddressInfo).port };
}

function open(
  path = "/",
  options: { method?: string; headers?: Record<string, string>; host?: string } = {},
) {
  const headers = { host: options.host ?? `${host}:${router.port}`, ...options.headers };
  const target = { host: "127.0.0.1", port: router.port, path, agent: false as const };
  return request({ ...target, method: options.method ?? "GET", headers });
}

async function fetch(path?: string, options?: Parameters<typeof open>[1], body?: string) {
  const sent = open(path, options).end(body);
  const [response] = (await once(sent, "response")) as [IncomingMessage];
  const text = Buffer.concat(await response.toArray()).toString();
  return { status: response.statusCode!, headers: response.headers, raw: response.rawHeaders, body: text };
}

describe("the router", () => {
  test("finds the app by host name, whatever its case, port or final dot", async () => {
    router.route("web-production-shop", [await startApp((_, res) => res.end("the shop"))]);
    for (const name of [host, `${host}:${router.port}`, host.toUpperCase(), `${host}.`]) {
      expect(await fetch("/", { host: name })).toMatchObject({ status: 200, body: "the shop" });
    }
  });

  test("answers 404 for an unknown host and 503 without a healthy release, as text or as JSON", async () => {
    router.route("web-production-shop", []);
    const down = await fetch();
    expect(down.status).toBe(503);
    expect(down.body).toMatch(/^This service has no healthy release at the moment\.\n$/);
    const json = await fetch("/", { headers: { accept: "application/json" } });
    expect(JSON.parse(json.body)).toEqual({ error: { code: "unavailable", message: expect.any(String) } });
    for (const name of ["other.localhost", "localhost", "127.0.0.1", "web-production-shop.example.com"]) {
      const unknown = await fetch("/", { host: name, headers: { accept: "application/json" } });
      expect(unknown.status).toBe(404);
      expect(JSON.parse(unknown.body).error.message).toContain(name);
    }
    router.forget("web-production-shop");
    expect((await fetch()).status).toBe(404);
  });

  test("a private app is known only to processes of this machine, by its name here and not by a proxy", async () => {
    const app = [await startApp((_, res) => res.end("inner"))];
    router.routeHost({ host: "shop.example.com" }, "web-production-shop");
    router.route("web-production-shop", app, "private");
    expect(await fetch()).toMatchObject({ status: 200, body: "inner" });
    const outside = [
      { host: "shop.example.com" },
      ...["forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip"].map((name) => ({
        headers: { [name]: "203.0.113.7" },
      })),
    ];
    for (const one of outside) expect([one, (await fetch("/", one)).status]).toEqual([one, 404]);
    const upgrade = { connection: "upgrade", upgrade: "websocket", "x-forwarded-for": "203.0.113.7" };
    expect((await fetch("/", { headers: upgrade })).status).toBe(404);
    const served = `/.berth/served?domain=${host}`;
    expect((await fetch(served, { host: `127.0.0.1:${router.port}` })).status).toBe(404);
    router.route("web-production-shop", app);
    for (const one of outside) expect([one, (await fetch("/", one)).status]).toEqual([one, 200]);
    expect((await fetch(served, { host: `127.0.0.1:${router.port}` })).status).toBe(200);
  });

  test("gives requests that come one after the other to all replicas in turn, and none to a busy one", async () => {
    let finish = () => {};
    const held = new Promise<void>((resolve) => {
      finish = resolve;
    });
    let arrive = () => {};
    const arrived = new Promise<void>((resolve) => {
      arrive = resolve;
    });
    const replica = (name: string) =>
      startApp(async (req, res) => {
        if (req.url === "/slow") {
          arrive();
          await held;
        }
        res.end(name);
      });
    router.route("web-production-shop", [await replica("one"), await replica("two"), await replica("three")]);
    const answers: string[] = [];
    for (let n = 0; n < 6; n++) answers.push((await fetch()).body);
    expect(answers).toEqual(["one", "two", "three", "one", "two", "three"]);
    const slow = fetch("/slow");
    await arrived;
    const others: string[] = [];
    for (let n = 0; n < 4; n++) others.push((await fetch()).body);
    finish();
    expect((await slow).body).toBe("one");
    expect(others.filter((name) => name === "one")).toHaveLength(0);
  });

  test("passes method, path, body, Host and repeated headers through, and says who asked", async () => {
    const app = await startApp(async (req, res) => {
      const body = Buffer.concat(await req.toArray()).toString();
      res.setHeader("set-cookie", ["a=1", "b=2"]);
      res.statusCode = 201;
      res.end(JSON.stringify({ method: req.method, url: req.url, headers: req.headers, body }));
    });
    router.route("web-production-shop", [app]);
    const headers = {
      "x-forwarded-for": "6.6.6.6",
      connection: "close, x-private",
      "x-private": "for the router",
      te: "trailers",
      "proxy-authorization": "secret",
    };
    const answer = await fetch("/a%20b?c=d", { method: "POST", headers }, "hello");
    expect(answer.status).toBe(201);
    expect(answer.headers["set-cookie"]).toEqual(["a=1", "b=2"]);
    const seen = JSON.parse(answer.body);
    expect(seen).toMatchObject({ method: "POST", url: "/a%20b?c=d", body: "hello" });
    expect(seen.headers).toMatchObject({
      host: `${host}:${router.port}`,
      "x-forwarded-for": "127.0.0.1",
      "x-forwarded-host": `${host}:${router.port}`,
      "x-forwarded-proto": "http",
    });
    for (const name of ["x-private", "te", "proxy-authorization"])
      expect(seen.headers).not.toHaveProperty(name);
  });

  test("streams both ways: the first bytes arrive before the last are sent", async () => {
    router.route("web-production-shop", [await startApp((req, res) => req.pipe(res))]);
    const sent = open("/", { method: "POST", headers: { "transfer-encoding": "chunked" } });
    sent.write("first");
    const [response] = (await once(sent, "response")) as [IncomingMessage];
    expect(String((await once(response, "data"))[0])).toBe("first");
    sent.write("second");
    expect(String((await once(response, "data"))[0])).toBe("second");
    sent.end();
    await once(response, "end");
  });

  test("carries a large body unchanged", async () => {
    router.route("web-production-shop", [await startApp((req, res) => req.pipe(res))]);
    const body = "0123456789abcdef".repeat(1024 * 1024);
    const sent = open("/", { method: "PUT" });
    sent.end(body);
    const [response] = (await once(sent, "response")) as [IncomingMessage];
    expect(Buffer.concat(await response.toArray()).toString() === body).toBe(true);
  });

  test("joins websocket connections", async () => {
    const app = await startApp(
      (_, res) => res.end(),
      (server) =>
        server.on("upgrade", (req, socket: Socket) => {
          socket.write(
            `HTTP/1.1 101 Switching Protocols\r\nupgrade: ${req.headers.upgrade}\r\nconnection: upgrade\r\n\r\n`,
          );
          socket.on("data", (data) => socket.write(`echo ${data}`));
        }),
    );
    router.route("web-production-shop", [app]);
    const sent = open("/socket", { headers: { connection: "Upgrade", upgrade: "websocket" } });
    sent.end();
    const [answer, socket] = (await once(sent, "upgrade")) as [IncomingMessage, Socket];
    expect(answer.statusCode).toBe(101);
    socket.write("hello");
    expect(String((await once(socket, "data"))[0])).toBe("echo hello");
    let drained = false;
    const draining = router.drained(app, 60_000).then(() => (drained = true));
    socket.write("still there");
    expect(String((await once(socket, "data"))[0])).toBe("echo still there");
    expect(drained).toBe(false);
    socket.destroy();
    await draining;
  });

  test("an upgrade to an unknown host or a service that is down is refused", async () => {
    router.route("web-production-shop", []);
    for (const [name, status] of [
      [host, 503],
      ["nobody.localhost", 404],
    ] as const) {
      const sent = open("/", { host: name, headers: { connection: "Upgrade", upgrade: "websocket" } });
      const [answer] = (await once(sent.end(), "response")) as [IncomingMessage];
      expect(answer.statusCode).toBe(status);
    }
  });

  test("asks another replica when one does not accept the connection", async () => {
    const gone = await startApp((_, res) => res.end());
    await new Promise((resolve) => servers.pop()!.close(resolve));
    router.route("web-production-shop", [gone, await startApp((req, res) => req.pipe(res))]);
    for (let n = 0; n < 4; n++)
      expect(await fetch("/", { method: "POST" }, "body")).toMatchObject({ body: "body" });
    router.route("web-production-shop", [gone]);
    expect((await fetch()).status).toBe(503);
  });

  test("a kept connection that the app closes costs no request", async () => {
    // Each connection serves one answer as if it were kept, and is cut when a second request comes.
    const server = createTcpServer((socket) => {
      socket.once("data", () => {
        socket.write("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
        socket.once("data", () => socket.resetAndDestroy());
      });
      socket.on("error", () => {});
    });
    await once(server.listen(0, "127.0.0.1"), "listening");
    const { port } = server.address() as AddressInfo;
    router.route("web-production-shop", [{ host: "127.0.0.1", port }]);
    for (let n = 0; n < 5; n++) expect(await fetch()).toMatchObject({ status: 200, body: "ok" });
    server.close();
  });

  test("an app that ends before it answers gives 502, in the middle of an answer a broken connection", async () => {
    const app = await startApp((req, res) => {
      if (req.url === "/late") res.write("half", () => res.destroy());
      else req.socket.destroy();
    });
    router.route("web-production-shop", [app]);
    expect((await fetch("/", { method: "POST" }, "x")).status).toBe(502);
    await expect(fetch("/late")).rejects.toThrow(/aborted/);
  });

  test("a client that goes away ends the request at the app", async () => {
    let ended: Promise<unknown> | undefined;
    const app = await startApp((_, res) => {
      ended = once(res, "close");
      res.write("beginning");
    });
    router.route("web-production-shop", [app]);
    const sent = open().end();
    const [response] = (await once(sent, "response")) as [IncomingMessage];
    response.on("error", () => {});
    sent.destroy();
    await ended;
    await router.drained(app, 60_000);
  });

  test("listens on this machine only, and says when its port is taken", async () => {
    await expect(startRouter({ port: router.port, log })).rejects.toMatchObject({ code: "EADDRINUSE" });
    const socket = connect({ host: "127.0.0.2", port: router.port });
    const [error] = await once(socket, "error");
    expect(error.code).toBe("ECONNREFUSED");
  });
});

describe("behind a proxy on this machine", () => {
  let proxied: Router;
  beforeEach(async () => {
    proxied = await startRouter({ port: 0, domain: "apps.example.com", behindProxy: true, log });
  });
  afterEach(() => proxied.close());

  async function ask(path: string, headers: Record<string, string>) {
    const target = { host: "127.0.0.1", port: proxied.port, path, agent: false as const };
    const [response] = (await once(request({ ...target, headers }).end(), "response")) as [IncomingMessage];
    return { status: response.statusCode!, body: Buffer.concat(await response.toArray()).toString() };
  }

  test("apps are at https names without a port, and learn from it who asked, and by which scheme", async () => {
    const app = await startApp((req, res) => res.end(JSON.stringify(req.headers)));
    proxied.route("web-production-shop", [app]);
    expect(proxied.urlOf("web-production-shop")).toBe("https://web-production-shop.apps.example.com");
    const said = { "x-forwarded-for": "198.51.100.7", "x-forwarded-proto": "https" };
    const claimed = { "x-forwarded-host": "evil.example", "x-forwarded-port": "1", forwarded: "for=1.1.1.1" };
    const name = "web-production-shop.apps.example.com";
    const seen = JSON.parse((await ask("/", { host: name, ...said, ...claimed })).body);
    expect(seen).toMatchObject({ host: name, ...said, "x-forwarded-host": name, "x-forwarded-port": "443" });
    expect(seen).not.toHaveProperty("forwarded");
    // A program of this machine, without a proxy.
    const plain = JSON.parse((await ask("/", { host: `${host}:${proxied.port}` })).body);
    const truth = { "x-forwarded-for": "127.0.0.1", "x-forwarded-proto": "http" };
    expect(plain).toMatchObject({ ...truth, "x-forwarded-port": String(proxied.port) });
  });

  test("a proxy learns which names are served before it gets certificates, and clients do not", async () => {
    proxied.route("web-production-shop", [await startApp((_, res) => res.end("the app"))]);
    proxied.routeHost({ host: "shop.example.org" }, "web-production-shop");
    const own = { host: `127.0.0.1:${proxied.port}` };
    const served = async (name: string) => (await ask(`/.berth/served?domain=${name}`, own)).status;
    for (const name of ["web-production-shop.apps.example.com", "WEB-production-shop.apps.example.com"])
      expect([name, await served(name)]).toEqual([name, 200]);
    expect(await served("shop.example.org")).toBe(200);
    const others = ["other.apps.example.com", "a.web-production-shop.apps.example.com", "apps.example.com"];
    for (const name of [...others, "evil.example", "", "%00", "*"])
      expect([name, await served(name)]).toEqual([name, 404]);
    // The path is the app's own at its address.
    const app = { host: "web-production-shop.apps.example.com" };
    expect((await ask("/.berth/served?domain=x", app)).body).toBe("the app");
  });
});
