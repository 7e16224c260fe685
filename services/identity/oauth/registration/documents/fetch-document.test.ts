import type { lookup } from "node:dns";
import { createServer, type Server } from "node:https";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { selfSignedCertificate } from "../../../../../test/support/servers/certificate.ts";
import { looksUpByThread } from "../../../../kit/testing/look-up.ts";
import { isPublicName } from "../host-names.ts";
import { DocumentTooLarge, documentFetcher } from "./fetch-document.ts";

const NAME = "client.berth-tests.dev";
let server: Server;
let ca: string;
let base: string;
const asked: string[] = [];

beforeAll(async () => {
  const { key, cert } = selfSignedCertificate(NAME);
  ca = cert;
  server = createServer({ key, cert }, (req, res) => {
    asked.push(req.url!);
    if (req.url === "/moved") return res.writeHead(302, { location: "/client.json" }).end();
    if (req.url === "/silent") return;
    if (req.url === "/endless") return void setInterval(() => res.write("a".repeat(1024)), 1).unref();
    if (req.url === "/gone") return res.writeHead(404).end();
    res.writeHead(200, { "cache-control": "public, max-age=120" }).end('{"client_id":"x"}');
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  base = `https://${NAME}:${(server.address() as AddressInfo).port}`;
});
afterAll(() => {
  server.closeAllConnections();
  server.close();
});

/** Every name is this computer. */
const loopback = ((_name: string, _options: object, done: (error: null, found: object[]) => void) =>
  done(null, [{ address: "127.0.0.1", family: 4 }])) as unknown as typeof lookup;

/** Reads a document, from this computer too if the options allow it. */
const read = (path: string, more: { isAllowed?: () => boolean; ca?: string } = { isAllowed: () => true }) =>
  documentFetcher({ maxBytes: 2048, ca, resolve: loopback, ...more })(new URL(path, base));

test("a document is fetched over https, with its max-age", async () => {
  const { status, body, maxAgeSeconds } = await read("/client.json");
  expect([status, body.toString(), maxAgeSeconds]).toEqual([200, '{"client_id":"x"}', 120]);
  expect(await read("/gone")).toMatchObject({ status: 404, maxAgeSeconds: undefined });
});

test("a redirect is not followed", async () => {
  asked.length = 0;
  expect((await read("/moved")).status).toBe(302);
  expect(asked).toEqual(["/moved"]);
});

test("a name that resolves to localhost or a private network is never connected to", async () => {
  asked.length = 0;
  await expect(read("/client.json", {})).rejects.toThrow("no public address");
  expect(asked).toEqual([]);
});

test("names are looked up without the threads that servers of names could hold", async () => {
  const fetchDocument = documentFetcher({ maxBytes: 2048 });
  expect(await looksUpByThread(() => fetchDocument(new URL(`https://${NAME}/client.json`)))).toBe(false);
});

test("an IP address is refused", async () => {
  for (const host of ["127.0.0.1", "[::1]", "8.8.8.8"])
    await expect(read(`https://${host}/client.json`)).rejects.toThrow("An address is no name");
});

test("an untrusted certificate is refused", async () => {
  await expect(read("/client.json", { isAllowed: () => true, ca: "" })).rejects.toThrow(
    /self-signed|self signed/,
  );
});
test("a document that never ends, or never starts, is given up", async () => {
  await expect(read("/endless")).rejects.toThrow(DocumentTooLarge);
  await expect(read("/silent")).rejects.toThrow(/abort/i);
});

test("names of private networks are not public", () => {
  for (const name of [
    "localhost",
    "intranet",
    "db.internal",
    "nas.local",
    "x.home.arpa",
    "a.svc.cluster.local",
  ])
    expect(isPublicName(name)).toBe(false);
  for (const name of ["example.com", "a.b-c.example.dev", "xn--mnchen-3ya.de"])
    expect(isPublicName(name)).toBe(true);
});
