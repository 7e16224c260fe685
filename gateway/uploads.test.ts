import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { request as httpRequest, type IncomingMessage, type ServerResponse } from "node:http";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { eventually } from "../services/kit/testing.ts";
import { type Surroundings, sendLarge, surroundings } from "./testing.ts";

let around: Surroundings;
let gateway: Awaited<ReturnType<Surroundings["gateway"]>>;
/** What the deployer's side does with an upload. */
let take: (req: IncomingMessage, res: ServerResponse) => void;

beforeAll(async () => {
  around = await surroundings({
    uploads: (req, res) => {
      if (!req.url?.startsWith("/uploads/")) return false;
      take(req, res);
      return true;
    },
  });
  gateway = await around.gateway();
});

afterAll(() => around.stop());

beforeEach(() => {
  take = (_req, res) => void res.writeHead(500).end();
});

const put = (path: string, body: string | Buffer, headers = {}) =>
  fetch(gateway.origin + path, { method: "PUT", body: body as string, headers });

test("an upload arrives byte by byte, with its URL, type and length, and needs no token", async () => {
  const bytes = randomBytes(5 * 1024 * 1024 + 7);
  const seen: Record<string, unknown> = {};
  take = async (req, res) => {
    const hash = createHash("sha256");
    for await (const chunk of req) hash.update(chunk as Buffer);
    Object.assign(seen, {
      url: req.url,
      type: req.headers["content-type"],
      length: req.headers["content-length"],
    });
    seen.hash = hash.digest("hex");
    res.writeHead(204).end();
  };
  const answer = await put("/uploads/arc_1?sig=a%2Bb", bytes, { "content-type": "application/gzip" });
  expect(answer.status).toBe(204);
  expect(answer.headers.get("x-request-id")).toMatch(/^req_/);
  expect(seen).toEqual({
    url: "/uploads/arc_1?sig=a%2Bb",
    type: "application/gzip",
    length: String(bytes.length),
    hash: createHash("sha256").update(bytes).digest("hex"),
  });
});

test("a refusal is in the envelope, with the deployer's own words where it has them", async () => {
  take = (req, res) => {
    req.resume();
    res.writeHead(422, { "content-type": "application/json" });
    res.end(JSON.stringify({ error: { code: "validation_failed", message: "Wrong type.", details: [] } }));
  };
  const said = await put("/uploads/arc_1", "x");
  expect(said.status).toBe(422);
  expect(await said.json()).toMatchObject({
    error: { code: "validation_failed", message: "Wrong type.", requestId: said.headers.get("x-request-id") },
  });
  take = (_req, res) => void res.writeHead(403).end("no");
  const bare = await put("/uploads/arc_1", "x");
  expect(bare.status).toBe(403);
  expect(await bare.json()).toMatchObject({ error: { code: "forbidden", details: [] } });
});

test("a refusal while a large body is still coming is read by the client", async () => {
  take = (_req, res) => void res.writeHead(413).end();
  const upload = httpRequest(`${gateway.origin}/uploads/arc_1`, { method: "PUT" });
  expect((await sendLarge(upload, 300)).statusCode).toBe(413);
});

test("a client that breaks off breaks the upload at the deployer", async () => {
  let broken = false;
  const begun = new Promise<void>((resolve) => {
    take = (req) => {
      req.once("data", () => resolve());
      req.on("error", () => {});
      req.on("close", () => {
        broken = !req.complete;
      });
      req.resume();
    };
  });
  const upload = httpRequest(`${gateway.origin}/uploads/arc_1`, { method: "PUT" });
  upload.on("error", () => {});
  upload.write(Buffer.alloc(1000));
  await begun;
  upload.destroy();
  await eventually("the deployer's side is broken off", async () => broken);
});

test("a deployer that breaks off is 503 in the envelope", async () => {
  take = (req) => void req.once("data", () => req.socket.destroy());
  const answer = await put("/uploads/arc_1", randomBytes(100_000));
  expect(answer.status).toBe(503);
  expect(await answer.json()).toMatchObject({ error: { code: "unavailable" } });
});

test("a slow deployer slows the client down: nothing piles up in the gateway", async () => {
  let release = () => {};
  take = (req, res) => {
    req.pause();
    release = () => {
      req.resume();
      req.on("end", () => res.writeHead(204).end());
    };
  };
  const upload = httpRequest(`${gateway.origin}/uploads/arc_1`, { method: "PUT" });
  const answered = once(upload, "response") as Promise<[IncomingMessage]>;
  const chunk = Buffer.alloc(1024 * 1024);
  let sent = 0;
  // Far less than this fits into the buffers of sockets and streams on the way.
  const all = 256;
  const drained = () => new Promise<boolean>((resolve) => upload.once("drain", () => resolve(true)));
  const stuck = (async () => {
    for (; sent < all; sent++)
      if (!upload.write(chunk) && !(await Promise.race([drained(), quiet()]))) return true;
    return false;
  })();
  expect(await stuck).toBe(true);
  expect(sent).toBeLessThan(all / 2);
  release();
  upload.end();
  const [response] = await answered;
  expect(response.statusCode).toBe(204);
  response.resume();
});

/** False after a second in which nothing moved. */
const quiet = () => new Promise<boolean>((resolve) => setTimeout(() => resolve(false), 1_000));

test("other methods and paths are in the envelope", async () => {
  const wrong = await fetch(`${gateway.origin}/uploads/arc_1`, { method: "POST" });
  expect([wrong.status, wrong.headers.get("allow")]).toEqual([405, "PUT"]);
  const unknown = await put("/upload", "x");
  expect(unknown.status).toBe(404);
});
