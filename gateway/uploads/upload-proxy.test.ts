import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { request as httpRequest, type IncomingMessage, type ServerResponse } from "node:http";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { eventually } from "../../services/kit/testing/testing.ts";
import { sendLarge } from "../testing/api-client.ts";
import { type TestPlatform, testPlatform } from "../testing/test-platform.ts";

let platform: TestPlatform;
let gateway: Awaited<ReturnType<TestPlatform["gateway"]>>;
/** What the deployer's side does with an upload. */
let take: (req: IncomingMessage, res: ServerResponse) => void | Promise<void>;

beforeAll(async () => {
  platform = await testPlatform({
    uploads: (req, res) => {
      if (!req.url?.startsWith("/uploads/")) return false;
      void take(req, res);
      return true;
    },
  });
  gateway = await platform.gateway();
});

afterAll(() => platform.stop());

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

test("a refusal to take one more upload comes with the time to come again", async () => {
  take = (_req, res) => void res.writeHead(429, { "retry-after": "7" }).end();
  const busy = await put("/uploads/arc_1", "x");
  expect([busy.status, busy.headers.get("retry-after")]).toEqual([429, "7"]);
  expect(await busy.json()).toMatchObject({ error: { code: "rate_limited" } });
  take = (_req, res) => {
    res.writeHead(503, { "content-type": "application/json", "retry-after": "7" });
    res.end(JSON.stringify({ error: { code: "unavailable", message: "Too many." } }));
  };
  const full = await put("/uploads/arc_1", "x");
  expect([full.status, full.headers.get("retry-after")]).toEqual([503, "7"]);
  expect(await full.json()).toMatchObject({ error: { code: "unavailable", message: "Too many." } });
  take = (req, res) => void req.resume().once("data", () => res.writeHead(408).end());
  expect(await (await put("/uploads/arc_1", "x")).json()).toMatchObject({
    error: { code: "request_timeout" },
  });
});

test("uploads that hang at the deployer make others wait for nothing: they are refused, until one has gone", async () => {
  let held = 0;
  take = (req) => {
    held++;
    req.resume().on("error", () => {});
    req.on("close", () => held--);
  };
  const hanging = Array.from({ length: 128 }, () => {
    const upload = httpRequest(`${gateway.origin}/uploads/arc_1`, { method: "PUT", agent: false });
    upload.on("error", () => {}).write("x");
    return upload;
  });
  await eventually("all of them are there", async () => held === hanging.length);
  const refused = await put("/uploads/arc_2", "x");
  expect([refused.status, Number(refused.headers.get("retry-after")) > 0]).toEqual([503, true]);
  hanging.pop()!.destroy();
  await eventually("one has gone", async () => held === hanging.length);
  take = (req, res) => void req.resume().on("end", () => res.writeHead(204).end());
  await eventually("there is room again", async () => (await put("/uploads/arc_2", "x")).status === 204);
  for (const upload of hanging) upload.destroy();
  await eventually("all have gone", async () => held === 0);
});

test("other methods and paths are in the envelope", async () => {
  const wrong = await fetch(`${gateway.origin}/uploads/arc_1`, { method: "POST" });
  expect([wrong.status, wrong.headers.get("allow")]).toEqual([405, "PUT"]);
  const unknown = await put("/upload", "x");
  expect(unknown.status).toBe(404);
});
