import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { type Browser, chromium, type Page } from "playwright-core";
import { findOnPath } from "./on-path.ts";

/** The path of the system's Chromium; undefined when there is none. */
export const chromiumProgram = findOnPath("chromium", "chromium-browser", "google-chrome");

/** As patient as a busy machine needs. */
const PATIENCE_MS = 120_000;

/** Starts the system's Chromium, whose pages wait as long for what they are asked for. */
export async function openBrowser(...args: string[]): Promise<Browser> {
  const options = { executablePath: chromiumProgram!, args: ["--no-sandbox", ...args] };
  const browser = await chromium.launch({ ...options, timeout: PATIENCE_MS });
  browser.on("context", (context) => context.setDefaultTimeout(PATIENCE_MS));
  return browser;
}

/** Returns what a page complains about, and what it asks of other hosts, as that happens. */
export function complaintsOf(page: Page, origin: string): string[] {
  const complaints: string[] = [];
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("console", (message) => message.type() === "error" && complaints.push(message.text()));
  page.on("request", (request) => {
    if (!request.url().startsWith(`${origin}/`) && !request.url().startsWith("data:"))
      complaints.push(request.url());
  });
  return complaints;
}

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Returns axe's violations on a page, as `rule: element`. The page's context needs `bypassCSP`. */
export async function accessibilityFaults(page: Page): Promise<string[]> {
  // Its style sheets too: on a busy machine, a page is in the document before it looks as it shall.
  await page.waitForLoadState("load");
  await page.evaluate(axe);
  return page.evaluate(async () => {
    type Result = { violations: { id: string; nodes: { html: string }[] }[] };
    const { axe } = globalThis as unknown as { axe: { run(): Promise<Result> } };
    const { violations } = await axe.run();
    return violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html}`));
  });
}
