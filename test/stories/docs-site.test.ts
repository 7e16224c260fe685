import { execFile } from "node:child_process";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { extname, join } from "node:path";
import { promisify } from "node:util";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { accessibilityFaults, chromiumProgram, complaintsOf, openBrowser } from "../support/browser.ts";

if (!chromiumProgram) console.log("Skipped: the documentation as a site. No Chromium on the PATH.");

/** Where the site is on its host: not at the root, so that a link that forgets it is found. */
const BASE = "/0.1.0/";
const TYPES: Record<string, string> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript",
  ".css": "text/css",
  ".json": "application/json",
  ".svg": "image/svg+xml",
  ".png": "image/png",
  ".woff2": "font/woff2",
};

describe.skipIf(!chromiumProgram)("the documentation as a site", () => {
  let folder: string;
  let server: Server;
  let browser: Browser;
  let origin: string;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "berth-docs-"));
    const build = join(import.meta.dirname, "../../deploy/docs/main.ts");
    await promisify(execFile)(process.execPath, [build, "--out", folder, "--base", BASE]);
    server = createServer(async ({ url = "" }, response) => {
      const { pathname } = new URL(url, "http://site");
      const path = pathname.replace(/\/$/, "/index.html").slice(BASE.length);
      const found = pathname.startsWith(BASE) && (await readFile(join(folder, path)).catch(() => undefined));
      response.writeHead(found ? 200 : 404, { "content-type": TYPES[extname(path)] ?? "text/plain" });
      response.end(found || "not found");
    }).listen(0, "127.0.0.1");
    browser = await openBrowser();
    origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  }, 900_000);

  afterAll(async () => {
    await browser?.close();
    server?.closeAllConnections();
    server?.close();
    await rm(folder, { recursive: true, force: true });
  });

  async function open(path: string, options: { bypassCSP?: boolean; colorScheme?: "dark" | "light" } = {}) {
    const page = await (await browser.newContext(options)).newPage();
    const complaints = complaintsOf(page, origin);
    await page.goto(origin + BASE + path);
    return { page, complaints };
  }

  test("every link of every page leads to a file of the site, and to a heading in it", async () => {
    const files = await readdir(folder, { recursive: true });
    const html = new Map<string, string>();
    for (const file of files.filter((file) => file.endsWith(".html")))
      html.set(file, await readFile(join(folder, file), "utf8"));
    expect(html.size).toBeGreaterThan(50);
    const broken = [...html].flatMap(([file, text]) =>
      [...text.matchAll(/<a\b[^>]* href="([^"]+)"/g)]
        .map(([, href]) => new URL(href!, `http://site${BASE}${file}`))
        .filter(({ host }) => host === "site")
        .filter(({ pathname, hash }) => {
          const path = pathname.replace(/\/$/, "/index.html").slice(BASE.length);
          const file = extname(path) ? path : `${path}.html`;
          const id = decodeURIComponent(hash.slice(1));
          // The reference makes its headings in the browser.
          const isThere = id === "" || file === "api/index.html" || html.get(file)?.includes(`id="${id}"`);
          return !files.includes(file) || !isThere;
        })
        .map(({ pathname, hash }) => `${file}: ${pathname}${hash}`),
    );
    expect(broken).toEqual([]);
  });

  test("the first page leads to an app in three ways, and loads nothing from elsewhere", async () => {
    const { page, complaints } = await open("");
    for (const name of ["Try", "One server", "A cluster"])
      await page
        .getByRole("heading", { name: new RegExp(`^${name}`) })
        .last()
        .waitFor();
    await page.getByRole("link", { name: "The first deploy" }).click();
    await page.getByRole("heading", { name: /^First deploy/ }).waitFor();
    expect(complaints).toEqual([]);
  });

  test.each([
    ["domain", "Domains"],
    ["scale", "Scale"],
    ["secret", "Variables"],
    ["cron", "Jobs"],
    ["backup", "Backup and restore"],
  ])("a search for %s finds the page %s", async (word, title) => {
    const { page } = await open("contents.html");
    await page.getByRole("button", { name: "Search" }).click();
    await page.getByRole("searchbox").fill(word);
    await page.getByRole("option", { name: title }).first().waitFor();
  });

  test("diagrams are drawn", async () => {
    const { page, complaints } = await open("architecture.html");
    for (const at of [0, 1, 2]) await page.locator(".diagram").nth(at).locator("svg").first().waitFor();
    expect(complaints).toEqual([]);
  });

  test("the API reference shows an operation, and no form that needs an installation", async () => {
    const { page, complaints } = await open("api/");
    await page.getByRole("heading", { name: "List accounts" }).waitFor();
    await page.getByText("curl https://berth.example.com/v1/accounts").first().waitFor();
    expect(await page.getByLabel("Token to try requests with").count()).toBe(0);
    expect(await page.getByText("Try it").count()).toBe(0);
    expect(complaints).toEqual([]);
  });

  test.each(["light", "dark"] as const)("axe finds nothing on the first page, %s", async (colorScheme) => {
    const { page } = await open("", { bypassCSP: true, colorScheme });
    await page
      .getByRole("heading", { name: /^A cluster/ })
      .last()
      .waitFor();
    expect(await accessibilityFaults(page)).toEqual([]);
  });
});
