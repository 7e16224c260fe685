import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { accessibilityFaults, chromiumProgram, complaintsOf, openBrowser } from "../support/browser.ts";
import { startWorld, type World } from "../support/world.ts";

if (!chromiumProgram) console.log("Skipped: the reference page in a browser. No Chromium on the PATH.");

describe.skipIf(!chromiumProgram)("the reference page in a browser", () => {
  let world: World;
  let browser: Browser;
  beforeAll(async () => {
    [world, browser] = await Promise.all([startWorld(), openBrowser()]);
  });
  afterAll(async () => {
    await browser?.close();
    await world?.stop();
  });

  /** The page, and everything that it complains about or asks of other hosts. */
  async function open(options: { bypassCSP?: boolean; colorScheme?: "dark" | "light" } = {}) {
    const context = await browser.newContext({ ...options, viewport: { width: 1400, height: 1000 } });
    const page = await context.newPage();
    const complaints = complaintsOf(page, world.origin);
    await page.goto(`${world.origin}/docs`);
    await page.getByRole("heading", { name: "List accounts" }).waitFor();
    return { page, complaints };
  }

  const operation = (page: Page, id: string) => page.locator(`article#${id}`);

  test("a request is tried with a token, and its answer is shown; nothing is loaded from elsewhere", async () => {
    const { page, complaints } = await open();
    await page.getByLabel("Token to try requests with").fill(world.ownerToken);
    const list = operation(page, "listAccounts");
    await list.getByText("Try it").click();
    await list.getByRole("button", { name: "Send" }).click();
    await list.getByText("200 OK").waitFor();
    const shown = await list.getByRole("status").textContent();
    expect(shown).toContain('"data": [');
    expect(shown).toMatch(/x-request-id: \w+/);
    expect(shown).not.toContain(world.ownerToken);

    const { id } = JSON.parse(shown!.slice(shown!.indexOf("{"))).data[0] as { id: string };
    const get = operation(page, "getAccount");
    await get.getByText("Try it").click();
    await get.getByLabel("accountId").fill(id);
    await get.getByRole("button", { name: "Send" }).click();
    await get.getByText(`"id": "${id}"`).waitFor();

    const update = operation(page, "updateAccount");
    await update.getByText("Try it").click();
    expect(await update.getByLabel("accountId").inputValue()).toBe(id);
    await update.getByLabel("Body").fill('{"displayName": "From the page"}');
    await update.getByRole("button", { name: "Send" }).click();
    await update.getByText('"displayName": "From the page"').waitFor();
    expect(complaints).toEqual([]);
  });

  test("a refusal is shown as it is answered", async () => {
    const { page } = await open();
    const me = operation(page, "getMe");
    await me.getByText("Try it").click();
    await me.getByRole("button", { name: "Send" }).click();
    await me.getByText('"code": "unauthenticated"').waitFor();
  });

  test.each(["light", "dark"] as const)("axe finds nothing in the %s page", async (colorScheme) => {
    const { page, complaints } = await open({ bypassCSP: true, colorScheme });
    await operation(page, "createAccount").getByText("Try it").click();
    await operation(page, "createAccount").getByLabel("Body").waitFor();
    expect(await accessibilityFaults(page)).toEqual([]);
    expect(complaints).toEqual([]);
  });
});
