import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import {
  allow,
  atProgram,
  heading,
  inChromium,
  nativeApp,
  newPage,
  OWNER,
  signIn,
  toConsent,
} from "./chromium.ts";

inChromium("several tabs and users of one browser", (stage) => {
  test("in two tabs two applications are connected", async () => {
    const { page } = await newPage(stage);
    const other = await page.context().newPage();
    const apps = [await nativeApp(stage), await nativeApp(stage)];
    await toConsent(page, apps[0]!);
    await other.goto(apps[1]!.authorizeUrl());
    await other.getByRole("button", { name: "Continue as" }).click();
    await other.getByRole("button", { name: "Allow access" }).waitFor();
    for (const [tab, app] of [
      [page, apps[0]!],
      [other, apps[1]!],
    ] as const) {
      await allow(tab);
      await atProgram(tab, stage);
      expect(await app.tokens(new URL(tab.url()))).toHaveProperty("access_token");
    }
  });

  test("a session that ended in the middle: the user signs in and is back at the same request", async () => {
    const { page } = await newPage(stage);
    const app = await nativeApp(stage);
    await toConsent(page, app);
    const consent = page.url();
    const [cookie] = (await page.context().cookies()).filter(({ name }) => name === "berth_session");
    expect(cookie).toMatchObject({ httpOnly: true, sameSite: "Lax", path: "/" });
    await stage.world.must("DELETE", "/sessions", undefined, cookie!.value);
    await allow(page);
    expect(await heading(page)).toBe("Sign in");
    await signIn(page);
    await page.waitForURL(consent);
    await allow(page);
    await atProgram(page, stage);
  });

  test("another user of the browser is told that the request is not theirs, and signs in as the other", async () => {
    const ada = await stage.world.member("editor");
    const { page } = await newPage(stage);
    const app = await nativeApp(stage);
    await toConsent(page, app);
    const consent = page.url();
    await page.goto(`${stage.world.origin}/signin`);
    await signIn(page, ada);
    await page.waitForURL(/console|profile/);
    await page.goto(consent);
    expect(await heading(page)).toBe("This request is for another user");
    expect(await page.getByText(`You are signed in as ${ada.email}`).isVisible()).toBe(true);
    await page.getByRole("link", { name: `Sign in as ${OWNER.email}` }).click();
    await signIn(page);
    await page.waitForURL(consent);
    await allow(page);
    await atProgram(page, stage);
  });

  /** A second user signs in, in another tab. */
  async function takeOver(page: Page) {
    const ada = await stage.world.member("editor");
    const tab = await page.context().newPage();
    await tab.goto(`${stage.world.origin}/signin`);
    await signIn(tab, ada);
    await tab.waitForURL(/console|profile/);
    return ada;
  }
  const nothingHappens = async (page: Page, button: string) => {
    await page.getByRole("button", { name: button }).click();
    expect(await heading(page)).toBe("This form is out of date");
    await page.getByRole("link", { name: "Open the page again" }).click();
  };

  test.each(["Allow access", "Deny"])(
    "a consent that the first user left open: the second one's %s decides nothing",
    async (button) => {
      const { page } = await newPage(stage);
      const app = await nativeApp(stage);
      await toConsent(page, app);
      const consent = page.url();
      const ada = await takeOver(page);
      await nothingHappens(page, button);
      expect(await heading(page)).toBe("This request is for another user");
      expect(await stage.world.must("GET", "/me/mcp-grants", undefined, ada.token)).toEqual([]);
      await page.getByRole("link", { name: `Sign in as ${OWNER.email}` }).click();
      await signIn(page);
      await page.waitForURL(consent);
      await allow(page);
      await atProgram(page, stage);
      expect(await app.tokens(new URL(page.url()))).toHaveProperty("access_token");
    },
  );

  test("a login that the first user left open continues as nobody, until the second one chooses to", async () => {
    const { page } = await newPage(stage);
    const first = await nativeApp(stage);
    await toConsent(page, first);
    await page.goto((await nativeApp(stage)).authorizeUrl());
    const ada = await takeOver(page);
    await nothingHappens(page, `Continue as ${OWNER.email}`);
    await page.getByRole("button", { name: `Continue as ${ada.email}` }).waitFor();
  });
});
