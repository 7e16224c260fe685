import { readFile } from "node:fs/promises";
import { join } from "node:path";
import pg from "pg";
import type { Browser, Page } from "playwright-core";
import { chromiumProgram, openBrowser } from "../../support/browser.ts";
import { newEnvironment, type Platform } from "../platform.ts";
import { type Bench, quietest } from "../row.ts";
import { superuser } from "../scratch.ts";

const SERVICES = 20;
const MANY_SERVICES = 1_000;
const MANY_DEPLOYMENTS = 10_000;
/** Turns of the wheel, and how far each goes. */
const TURNS = 60;
const TURN_PX = 800;

/**
 * From opening an environment's address in a browser that has nothing in its cache, signed in, to all of its services; the
 * same with a thousand services; and how long the page stands still at most while it is scrolled: there, and in the
 * history of a service with ten thousand deployments.
 */
export const consoleRow: Bench = {
  names: [
    "console-first-screen",
    "console-1000-services",
    "console-scroll-services",
    "console-scroll-history",
  ],
  run: async (platform) => {
    if (!chromiumProgram) {
      console.log("Skipped: console-first-screen. No Chromium on the PATH.");
      return [];
    }
    const few = await environment(platform, SERVICES);
    const many = await environment(platform, MANY_SERVICES);
    await addHistory(platform, `${many}/services/web-0`);
    const browser = await openBrowser();
    try {
      const signedIn = await signIn(platform, browser, few);
      const seconds = (E: string) =>
        quietest(async () => [(await open(platform, browser, signedIn, E)).seconds]);
      const [[first = 0], [large = 0]] = [await seconds(few), await seconds(many)];
      const { page } = await open(platform, browser, signedIn, many);
      const services = await longestPause(page);
      await page.goto(`${platform.origin}/console${many}/services/web-0`);
      await page
        .getByRole("row")
        .filter({ hasText: `v${MANY_DEPLOYMENTS}` })
        .waitFor();
      await readAll(page);
      const history = await longestPause(page);
      return [
        { name: "console-first-screen", value: first, unit: "s", goal: "<= 1" },
        { name: "console-1000-services", value: large, unit: "s", goal: "<= 2" },
        { name: "console-scroll-services", value: services, unit: "ms", goal: "<= 100" },
        { name: "console-scroll-history", value: history, unit: "ms", goal: "<= 100" },
      ];
    } finally {
      await browser.close();
    }
  },
};

async function environment(platform: Platform, services: number): Promise<string> {
  const { E } = await newEnvironment(platform, "console");
  for (let at = 0; at < services; at += 20)
    await Promise.all(
      Array.from({ length: Math.min(20, services - at) }, (_, n) =>
        platform.call("POST", `${E}/services`, { name: `web-${at + n}`, type: "web" }),
      ),
    );
  return E;
}

/** Inserts deployments that have failed. */
async function addHistory(platform: Platform, S: string): Promise<void> {
  const { id } = await platform.call<{ id: string }>("GET", S);
  const client = new pg.Client({ connectionString: (await superuser(platform))("berth") });
  await client.connect();
  try {
    await client.query("set session_replication_role = replica");
    await client.query(
      `insert into deployer.deployments (id, service_id, version, status, config, source, finished_at)
       select 'dep_history' || n, $1, n, 'failed', config, source, now()
       from deployer.services, generate_series(1, $2::int) n where services.id = $1`,
      [id, MANY_DEPLOYMENTS],
    );
  } finally {
    await client.end();
  }
}

type Session = Awaited<ReturnType<Awaited<ReturnType<Browser["newContext"]>>["storageState"]>>;

async function signIn(platform: Platform, browser: Browser, E: string): Promise<Session> {
  const context = await browser.newContext();
  const page = await context.newPage();
  await page.goto(`${platform.origin}/console${E}`);
  const { ownerPassword } = JSON.parse(await readFile(join(platform.dir, "secrets.json"), "utf8"));
  await page.getByLabel("E-mail").fill(platform.ownerEmail);
  await page.getByLabel("Password").fill(ownerPassword);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("button", { name: "Sign out" }).waitFor();
  return context.storageState();
}

/** Opens an environment in a context with this session, and a cache of its own; returns when its services are there. */
async function open(platform: Platform, browser: Browser, storageState: Session, E: string) {
  const page = await (await browser.newContext({ storageState })).newPage();
  const begun = performance.now();
  await page.goto(`${platform.origin}/console${E}`);
  await page.getByRole("row").filter({ hasText: "web-0" }).waitFor();
  return { page, seconds: (performance.now() - begun) / 1_000 };
}

/** Has the page read older deployments until there are none. */
async function readAll(page: Page): Promise<void> {
  await page.evaluate(async () => {
    type Button = { ariaDisabled: string | null; click(): void };
    type Document = { querySelector(what: string): Button | null };
    const { document } = globalThis as unknown as { document: Document };
    for (;;) {
      const button = document.querySelector(".table + button");
      if (!button) return;
      if (button.ariaDisabled !== "true") button.click();
      await new Promise((next) => setTimeout(next, 10));
    }
  });
}

/** Scrolls a page to its end, and returns the longest time (ms) in which it drew nothing, and did nothing else. */
async function longestPause(page: Page): Promise<number> {
  await page.evaluate(() => {
    const seen = globalThis as unknown as {
      longest: number;
      requestAnimationFrame: (next: (at: number) => void) => void;
    };
    seen.longest = 0;
    let before = performance.now();
    const frame = (at: number) => {
      seen.longest = Math.max(seen.longest, at - before);
      before = at;
      seen.requestAnimationFrame(frame);
    };
    seen.requestAnimationFrame(frame);
  });
  await page.mouse.move(400, 400);
  for (let turn = 0; turn < TURNS; turn++) await page.mouse.wheel(0, TURN_PX);
  return page.evaluate(() => (globalThis as unknown as { longest: number }).longest);
}
