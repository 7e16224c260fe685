import { afterAll, beforeAll, expect, test } from "vitest";
import { type TestPlatform, testPlatform } from "../testing/test-platform.ts";

let platform: TestPlatform;
let gateway: Awaited<ReturnType<TestPlatform["gateway"]>>;

beforeAll(async () => {
  platform = await testPlatform();
  gateway = await platform.gateway({
    PUBLIC_ORIGIN: "https://berth.example.com",
    API_PREFIX: "/api/v9",
    CONSOLE: "off",
  });
});

afterAll(() => platform.stop());

const get = (path: string) => fetch(`http://127.0.0.1:${gateway.port}${path}`);

test("the document is served at the origin and below the prefix, with this installation's base URL", async () => {
  for (const path of ["/openapi.json", "/api/v9/openapi.json"]) {
    const document = (await (await get(path)).json()) as Record<string, unknown>;
    expect(document.openapi).toBe("3.1.0");
    expect(document.servers).toEqual([{ url: "https://berth.example.com/api/v9" }]);
  }
  expect((await get("/v1/openapi.json")).status).toBe(404);
  expect((await get("/api/v9/me")).status).toBe(401);
});

test("the origin leads a browser to the reference page, and who asks for JSON to the document", async () => {
  const lead = async (method: string, accept?: string) => {
    const headers: Record<string, string> = accept === undefined ? {} : { accept };
    const answer = await fetch(`http://127.0.0.1:${gateway.port}/`, { method, headers, redirect: "manual" });
    return `${answer.status} ${answer.headers.get("location") ?? answer.headers.get("allow")}`;
  };
  const browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
  expect(await lead("GET", browser)).toBe("302 /docs");
  expect(await lead("HEAD", browser)).toBe("302 /docs");
  expect(await lead("GET")).toBe("302 /docs");
  expect(await lead("GET", "application/json")).toBe("302 /openapi.json");
  expect(await lead("POST")).toBe("405 GET, HEAD");
  expect((await get("/")).headers.get("content-type")).toMatch(/^text\/html/);
});

test.each(["/docs", "/invitation", "/password-reset"])(
  "%s loads all it needs from the gateway itself",
  async (path) => {
    const page = await get(path);
    expect(page.headers.get("content-type")).toMatch(/^text\/html/);
    expect(page.headers.get("content-security-policy")).toMatch(/default-src 'none'/);
    const html = await page.text();
    const needed = [...html.matchAll(/(?:src|href)="([^"#]+)"/g)].map((match) => match[1]!);
    expect(needed.length).toBeGreaterThan(2);
    expect(page.headers.get("referrer-policy")).toBe("no-referrer");
    expect(html).not.toMatch(/<script>|<style>| style=| on\w+=|{{/);
    // Iterating a Set reaches what is added meanwhile: here, what scripts import.
    const files = new Set(needed.filter((path) => path !== "data:,"));
    for (const one of files) {
      expect(one).toMatch(/^\//);
      const file = await get(one);
      expect([one, file.status]).toEqual([one, 200]);
      if (one === "/openapi.json") continue;
      const text = await file.text();
      expect(text).not.toMatch(/https?:\/\//);
      for (const [, imported] of text.matchAll(/from "([^"]+)"/g)) files.add(imported!);
    }
  },
);

test("the pages of links call the API where this installation has it", async () => {
  for (const path of ["/invitation", "/password-reset"])
    expect(await (await get(path)).text()).toContain('<meta name="berth-api" content="/api/v9">');
});
