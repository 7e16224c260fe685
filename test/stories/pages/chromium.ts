import type { Browser, BrowserContextOptions, Page } from "playwright-core";
import { afterAll, beforeAll, describe } from "vitest";
import { eventually } from "../../../services/kit/testing/testing.ts";
import { chromiumProgram, openBrowser } from "../../support/browser.ts";
import { startWorld, type World } from "../../support/world.ts";
import { application, listeningProgram } from "./application.ts";

/** What the tests of one file share. */
export type Stage = {
  world: World;
  browser: Browser;
  /** The program on this computer that applications are sent back to. */
  program: Awaited<ReturnType<typeof listeningProgram>>;
};

type Credentials = { email: string; password: string };

export const OWNER: Credentials = { email: "owner@example.com", password: "a-password-of-the-owner" };

/** Describes tests that need the platform and Chromium; without Chromium they are skipped, and that is printed. */
export function inChromium(name: string, tests: (stage: Stage) => void, open = () => startWorld()): void {
  if (!chromiumProgram) console.log(`Skipped: ${name}. No Chromium on the PATH.`);
  describe.skipIf(!chromiumProgram)(name, () => {
    const stage = {} as Stage;
    beforeAll(async () => {
      const [world, browser, program] = await Promise.all([open(), openBrowser(), listeningProgram()]);
      Object.assign(stage, { world, browser, program });
    });
    afterAll(async () => {
      await stage.browser?.close();
      stage.program?.stop();
      await stage.world?.stop();
    });
    tests(stage);
  });
}

/** Registers an application that is the stage's program. */
export const nativeApp = ({ world, program }: Stage) =>
  application(world.origin, { redirect_uris: [program.redirectUri] });

/** Opens a page in a browser without cookies, and notes what the pages' own policy refuses. */
export async function newPage({ browser }: Stage, options: BrowserContextOptions = {}) {
  const page = await (await browser.newContext(options)).newPage();
  const refusedByPolicy: string[] = [];
  page.on(
    "console",
    (message) => /Security Policy/.test(message.text()) && refusedByPolicy.push(message.text()),
  );
  return { page, refusedByPolicy };
}

/** Fills in the form for e-mail and password that a page shows, and sends it. */
export async function signIn(page: Page, { email, password }: Credentials = OWNER): Promise<void> {
  await page.getByLabel("E-mail").fill(email);
  await page.getByLabel("Password").fill(password);
  await page.getByRole("button", { name: "Sign in" }).click();
}

/** Follows an application to the page of the consent, as a user who signs in for it. */
export async function toConsent(
  page: Page,
  app: Pick<Awaited<ReturnType<typeof application>>, "authorizeUrl">,
  user: Credentials = OWNER,
): Promise<void> {
  await page.goto(app.authorizeUrl());
  await signIn(page, user);
  await page.getByRole("heading", { name: "Give an application access" }).waitFor();
}

export const allow = (page: Page) => page.getByRole("button", { name: "Allow access" }).click();

/** Waits until the page is at the application, also where one navigation there ends another, as a double click does. */
export const atProgram = (page: Page, { program }: Stage) =>
  eventually("the browser is at the application", async () => {
    if (!page.url().startsWith(program.redirectUri)) return false;
    return (await page.evaluate("document.readyState").catch(() => "")) === "complete";
  });

export const heading = (page: Page) => page.getByRole("heading", { level: 1 }).textContent();

/** Returns what a browser sends when a button of the page's forms is pressed, and where to. */
export function formOf(
  page: Page,
  button: string,
): Promise<{ action: string; form: Record<string, string> }> {
  return page.getByRole("button", { name: button, exact: true }).evaluate((element) => {
    type Button = { form: { action: string } };
    const { form } = element as unknown as Button;
    const { FormData } = globalThis as unknown as {
      FormData: new (form: object, button: object) => Iterable<[string, string]>;
    };
    return { action: form.action, form: Object.fromEntries(new FormData(form, element)) };
  });
}
