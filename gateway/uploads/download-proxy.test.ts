import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { request as httpRequest, type IncomingMessage, type ServerResponse } from "node:http";
import { afterAll, beforeAll, expect, test } from "vitest";
import { eventually } from "../../services/kit/testing/testing.ts";
import { type TestPlatform, testPlatform } from "../testing/test-platform.ts";

let platform: TestPlatform;
let origin: string;
/** What the deployer's side answers. */
let answer: (req: IncomingMessage, res: ServerResponse) => void;

beforeAll(async () => {
  platform = await testPlatform({
    uploads: (req, res) => {
      if (!req.url?.startsWith("/downloads/")) return false;
      answer(req, res);
      return true;
    },
  });
  ({ origin } = await platform.gateway());
});
afterAll(() => platform?.stop());

test("a download arrives byte by byte, as a file that no browser shows, and needs no token", async () => {
  const bytes = randomBytes(5 * 1024 * 1024 + 7);
  let asked: unknown;
  answer = ({ url, headers: { authorization, cookie } }, res) => {
    asked = { url, authorization, cookie };
    res.writeHead(200, {
      "content-type": "text/html",
      "content-length": bytes.length,
      "content-disposition": 'attachment; filename="db.dump"',
      "set-cookie": "a=b",
    });
    res.end(bytes);
  };
  const headers = { authorization: "Bearer secret", cookie: "session=secret" };
  const got = await fetch(`${origin}/downloads/backups/one?sig=a%2Bb`, { headers });
  const body = Buffer.from(await got.arrayBuffer());
  const hash = (data: Buffer) => createHash("sha256").update(data).digest("hex");
  expect([got.status, hash(body)]).toEqual([200, hash(bytes)]);
  expect(asked).toEqual({
    url: "/downloads/backups/one?sig=a%2Bb",
    authorization: undefined,
    cookie: undefined,
  });
  expect(Object.fromEntries(got.headers)).toMatchObject({
    "content-length": String(bytes.length),
    "content-disposition": 'attachment; filename="db.dump"',
    "content-security-policy": "sandbox; default-src 'none'",
    "x-content-type-options": "nosniff",
    "cache-control": "no-store",
  });
  expect(got.headers.get("set-cookie")).toBeNull();
});

test("a refusal of a download is in the envelope, in the deployer's words", async () => {
  answer = (_req, res) => {
    res.writeHead(403, { "content-type": "application/json" });
    res.end(JSON.stringify({ error: { code: "forbidden", message: "This download URL has expired." } }));
  };
  const got = await fetch(`${origin}/downloads/backups/one`);
  expect([got.status, await got.json()]).toMatchObject([
    403,
    { error: { code: "forbidden", message: "This download URL has expired." } },
  ]);
});

test("a download that breaks off at the deployer is not whole for the client either", async () => {
  answer = (_req, res) => {
    res.writeHead(200, { "content-length": 1000 });
    res.write("part", () => res.destroy());
  };
  const got = await fetch(`${origin}/downloads/backups/one`);
  await expect(got.text()).rejects.toThrow();
});

test("a client that leaves ends the download at the deployer", async () => {
  let isClosed = false;
  answer = (_req, res) => {
    res.on("close", () => {
      isClosed = true;
    });
    res.writeHead(200, { "content-length": 1000 });
    res.write("part");
  };
  const request = httpRequest(`${origin}/downloads/backups/one`).end();
  request.on("error", () => {});
  await once(request, "response");
  request.destroy();
  await eventually("it is closed", async () => isClosed);
});
