import type { lookup } from "node:dns";
import { createServer, type Server } from "node:https";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { selfSignedCertificate } from "../../../../test/support/servers/certificate.ts";
import { startReceiver } from "../testing.ts";
import { createPost } from "./post.ts";

const NAME = "hooks.berth-tests.dev";
let server: Server;
let ca: string;
let base: string;
let target = "";
const asked: string[] = [];

beforeAll(async () => {
  const { key, cert } = selfSignedCertificate(NAME);
  ca = cert;
  server = createServer({ key, cert }, (req, res) => {
    asked.push(req.url!);
    if (req.url === "/moved") return res.writeHead(307, { location: target }).end();
    if (req.url === "/endless") {
      const timer = setInterval(() => res.write("a".repeat(1_024)), 1).unref();
      return void res.on("close", () => clearInterval(timer));
    }
    if (req.url === "/upgraded")
      return void req.socket.write("HTTP/1.1 101 Other\r\nConnection: upgrade\r\nUpgrade: other\r\n\r\n");
    if (req.url === "/broken") return void req.socket.destroy();
    res.writeHead(202).end();
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  base = `https://${NAME}:${(server.address() as AddressInfo).port}`;
});
afterAll(() => {
  server.closeAllConnections();
  server.close();
});

/** A name server under which each name leads to these addresses, in turn. */
const leadsTo = (...addresses: string[]) =>
  ((_name: string, _options: object, done: (error: null, found: object[]) => void) => {
    const address = addresses.length > 1 ? addresses.shift()! : addresses[0]!;
    done(null, [{ address, family: address.includes(":") ? 6 : 4 }]);
  }) as unknown as typeof lookup;

const send = (path: string, more: Partial<Parameters<typeof createPost>[0]> = {}) =>
  createPost({ allowPrivate: false, resolve: leadsTo("127.0.0.1"), isAllowed: () => true, ca, ...more })(
    new URL(path, base),
    {},
    "{}",
  );

test("the answer is the status, whatever the body is and however long", async () => {
  expect(await send("/here")).toEqual({ status: 202 });
  expect(await send("/endless")).toEqual({ status: 200 });
});

test("a redirect into a private network, or anywhere, is not followed", async () => {
  const inside = await startReceiver();
  target = `${inside.base}/secret`;
  expect(await send("/moved")).toEqual({ status: 307 });
  expect(inside.at("/secret")).toEqual([]);
  await inside.stop();
});

test("a name that leads to an address that is not public is not connected to, also if it did lead elsewhere before", async () => {
  asked.length = 0;
  const addresses = ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "::ffff:127.0.0.1", "fd00::1"];
  for (const address of addresses)
    expect(await send("/here", { isAllowed: undefined, resolve: leadsTo(address) })).toEqual({
      error: "address_refused",
    });
  // The address that is checked is the one that is connected to: a second question would lead here.
  const rebinding = leadsTo("203.0.113.1", "127.0.0.1");
  expect(await send("/here", { isAllowed: undefined, resolve: rebinding })).toEqual({
    error: "address_refused",
  });
  expect(asked).toEqual([]);
});

test("an address of a private network in the URL is not connected to", async () => {
  const { base: inside, at, stop } = await startReceiver();
  const post = createPost({ allowPrivate: false });
  expect(await post(new URL(`${inside}/secret`), {}, "{}")).toEqual({ error: "address_refused" });
  expect(at("/secret")).toEqual([]);
  await stop();
});

test("what went wrong has a word", async () => {
  expect(await send("/here", { ca: undefined })).toEqual({ error: "certificate_invalid" });
  for (const path of ["/broken", "/upgraded"])
    expect(await send(path)).toEqual({ error: "connection_failed" });
  const unknown = ((_name: string, _options: object, done: (error: Error) => void) =>
    done(Object.assign(new Error("no such name"), { code: "ENOTFOUND" }))) as unknown as typeof lookup;
  expect(await send("/here", { resolve: unknown })).toEqual({ error: "name_not_found" });
});
