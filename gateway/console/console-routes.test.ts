import { existsSync } from "node:fs";
import { join } from "node:path";
import { brotliDecompressSync, gunzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { bringIn } from "../../test/support/door.ts";
import { type TestPlatform, testPlatform } from "../testing/test-platform.ts";
import { createVisitor } from "../testing/visitor.ts";

let platform: TestPlatform;
let gateway: Awaited<ReturnType<TestPlatform["gateway"]>>;

beforeAll(async () => {
  platform = await testPlatform();
  gateway = await platform.gateway({ CONSOLE: "on" });
});

afterAll(() => platform.stop());

const get = (path: string, headers: Record<string, string> = {}) =>
  fetch(gateway.origin + path, { headers, redirect: "manual" });

const BROWSER = { accept: "text/html,application/xhtml+xml,*/*;q=0.8" };

/** Returns the path of a file that the document names. */
async function asset(extension: string): Promise<string> {
  const html = await (await get("/console")).text();
  return new RegExp(`"(/console/assets/[^"]+\\.${extension})"`).exec(html)![1]!;
}

async function accountPath(): Promise<string> {
  const { body } = await gateway.call("GET", "/accounts");
  return `/accounts/${(body.data as { id: string }[])[0]!.id}`;
}

const isBuilt = existsSync(join(import.meta.dirname, "../../clients/console/dist/index.html"));
if (!isBuilt) console.log("Skipped: serving the console, which could not be built.");

describe.skipIf(!isBuilt)("the console as it is served", () => {
  test("a browser at the origin is led to the console, and a program to what it was before", async () => {
    expect((await get("/", BROWSER)).headers.get("location")).toBe("/console");
    expect((await get("/", { accept: "application/json" })).headers.get("location")).toBe("/openapi.json");
    expect((await get("/")).headers.get("location")).toBe("/docs");
  });

  test.each([
    "/console",
    "/console/",
    "/console/accounts/acc_1/projects/prj_1/environments/env_1/services/web",
  ])(
    "%s is the document: never stored, with a policy under which nothing inline and nothing from elsewhere runs",
    async (path) => {
      const answer = await get(path, BROWSER);
      expect(answer.status).toBe(200);
      expect(answer.headers.get("content-type")).toBe("text/html; charset=utf-8");
      expect(answer.headers.get("cache-control")).toBe("no-cache");
      const policy = answer.headers.get("content-security-policy");
      for (const part of [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "frame-ancestors 'none'",
      ])
        expect(policy).toContain(part);
      expect(policy).not.toMatch(/unsafe|\*/);
      expect(answer.headers.get("referrer-policy")).toBe("no-referrer");
      const html = await answer.text();
      expect(html).toContain('<meta name="berth-api" content="/v1">');
      expect(html).not.toMatch(/<script>|<style>| style=| on\w+=/);
    },
  );

  test("the document says where this installation has its API", async () => {
    const elsewhere = await platform.gateway({ CONSOLE: "on", API_PREFIX: "/api/v9" });
    const html = await (await fetch(`${elsewhere.origin}/console`)).text();
    expect(html).toContain('<meta name="berth-api" content="/api/v9">');
    await elsewhere.stop();
  });

  test("where archives are uploaded to another origin, the policy allows that one too, and no other", async () => {
    const elsewhere = await platform.gateway({
      CONSOLE: "on",
      UPLOAD_URL: "https://store.example.com/berth",
    });
    const answer = await fetch(`${elsewhere.origin}/console`);
    const policy = answer.headers.get("content-security-policy");
    expect(policy).toContain("connect-src 'self' https://store.example.com;");
    expect((await get("/console")).headers.get("content-security-policy")).toContain("connect-src 'self';");
    await elsewhere.stop();
  });

  test("files are stored for ever, and were compressed when they were built", async () => {
    const path = await asset("js");
    const whole = Buffer.from(await (await get(path, { "accept-encoding": "identity" })).arrayBuffer());
    // Not by fetch, which would decompress them.
    const { default: http } = await import("node:http");
    const raw = (encoding: string) =>
      new Promise<{ headers: NodeJS.Dict<string | string[]>; body: Buffer }>((resolve, reject) => {
        const headers = { "accept-encoding": encoding };
        http
          .get(gateway.origin + path, { headers }, async (response) => {
            const pieces = await response.toArray();
            resolve({ headers: response.headers, body: Buffer.concat(pieces) });
          })
          .on("error", reject);
      });
    for (const [accepted, name, open] of [
      ["br, gzip", "br", brotliDecompressSync],
      ["gzip", "gzip", gunzipSync],
    ] as const) {
      const { headers, body } = await raw(accepted);
      expect(headers["content-encoding"]).toBe(name);
      expect(headers["cache-control"]).toBe("public, max-age=31536000, immutable");
      expect(headers["content-type"]).toMatch(/^(?:text|application)\/javascript/);
      expect(headers.vary).toMatch(/accept-encoding/i);
      expect(headers["x-content-type-options"]).toBe("nosniff");
      expect(open(body).equals(whole)).toBe(true);
    }
  });

  test("a file that is not there is 404, also outside of the folder, and never the document", async () => {
    for (const path of [
      "/console/assets/index-gone.js",
      "/console/assets/..%2f..%2f..%2fpackage.json",
      "/console/assets/.gitignore",
    ]) {
      const answer = await get(path);
      expect([path, answer.status]).toEqual([path, 404]);
      expect(answer.headers.get("content-type")).toMatch(/json/);
    }
  });

  test("what is no path is a page to people, and JSON to programs and below the API", async () => {
    const page = await get("/nowhere", BROWSER);
    expect([page.status, page.headers.get("content-type")]).toEqual([404, "text/html; charset=utf-8"]);
    expect(await page.text()).toContain("There is no such page");
    for (const [path, headers] of [
      ["/nowhere", {}],
      ["/v1/nowhere", BROWSER],
      ["/v1/nowhere", {}],
    ] as const) {
      const answer = await get(path, headers);
      const { error } = (await answer.json()) as { error: { code: string } };
      expect([path, answer.status, error.code]).toEqual([path, 404, "not_found"]);
    }
  });

  test("who signs in from nowhere is led to the console, and to the profile where there is none", async () => {
    const html = await (await get("/signin")).text();
    expect(html).toContain('name="return_to" value="/console"');
    const without = await platform.gateway();
    expect(await (await fetch(`${without.origin}/signin`)).text()).toContain('value="/profile"');
    await without.stop();
  });

  test("who comes back from the payment provider signed in goes on to the console, and nobody else does", async () => {
    const user = await bringIn(gateway.call, await accountPath(), "reader");
    const { go, signIn } = createVisitor(() => gateway.origin);
    const path = "/billing/subscribed?account=acc_1%2F..";
    expect((await go("GET", path)).status).toBe(200);
    await signIn(user);
    expect((await go("GET", path)).location).toBe(
      "/console/accounts/acc_1%2F../subscription?returned=subscribed",
    );
    expect((await go("GET", "/billing/subscribed")).status).toBe(200);
  });

  test("the profile leads owners to the billing of the console", async () => {
    const user = await bringIn(gateway.call, await accountPath(), "owner");
    const { go, signIn } = createVisitor(() => gateway.origin);
    await signIn(user);
    expect((await go("GET", "/profile")).text).toContain(
      `href="/console${await accountPath()}/subscription"`,
    );
  });
});
