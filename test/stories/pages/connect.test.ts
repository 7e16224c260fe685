import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { chromiumProgram, openBrowser } from "../../support/browser.ts";
import { startWorld, type World } from "../../support/world.ts";
import { application, listeningProgram } from "./application.ts";

if (!chromiumProgram) console.log("Skipped: connecting applications in a browser. No Chromium on the PATH.");

const OWNER = { email: "owner@example.com", password: "a-password-of-the-owner" };

describe.skipIf(!chromiumProgram)("connecting an application in a browser", () => {
  let world: World;
  let browser: Browser;
  let program: Awaited<ReturnType<typeof listeningProgram>>;
  beforeAll(async () => {
    [world, browser, program] = await Promise.all([startWorld(), openBrowser(), listeningProgram()]);
  });
  afterAll(async () => {
    await browser?.close();
    program?.stop();
    await world?.stop();
  });

  const newPage = async (options: { javaScriptEnabled?: boolean } = {}) => {
    const page = await (await browser.newContext(options)).newPage();
    const refusedByPolicy: string[] = [];
    page.on(
      "console",
      (message) => /Security Policy/.test(message.text()) && refusedByPolicy.push(message.text()),
    );
    return { page, refusedByPolicy };
  };
  const native = () => application(world.origin, { redirect_uris: [program.redirectUri] });
  const heading = (page: Page) => page.getByRole("heading", { level: 1 }).textContent();

  async function signIn(page: Page, { email, password } = OWNER) {
    await page.getByLabel("E-mail").fill(email);
    await page.getByLabel("Password").fill(password);
    await page.getByRole("button", { name: "Sign in" }).click();
  }
  async function toConsent(page: Page, url: string, user = OWNER) {
    await page.goto(url);
    await signIn(page, user);
    await page.getByRole("heading", { name: "Give an application access" }).waitFor();
  }
  const allow = (page: Page) => page.getByRole("button", { name: "Allow access" }).click();
  const granted = async (token: string) => {
    type Grant = { accountHandle: string; role: string };
    const grants = await world.must<Grant[]>("GET", "/me/mcp-grants", undefined, token);
    return grants.map(({ accountHandle, role }) => `${accountHandle} ${role}`);
  };
  const atProgram = (page: Page) => page.waitForURL((url) => url.href.startsWith(program.redirectUri));

  test.each([true, false])(
    "a user signs in, gives access to one account, sees it and revokes it (JavaScript: %s)",
    async (javaScriptEnabled) => {
      const { page, refusedByPolicy } = await newPage({ javaScriptEnabled });
      const app = await native();
      await toConsent(page, app.authorizeUrl());
      expect(await page.getByText("Self-registered, unverified.").isVisible()).toBe(true);
      expect(await page.getByText("This application runs on your own computer.").isVisible()).toBe(true);
      expect(await page.getByText(new URL(program.redirectUri).host).isVisible()).toBe(true);
      await allow(page);
      await atProgram(page);
      const { access_token: token } = await app.tokens(new URL(page.url()));
      expect((await world.call("GET", world.A, undefined, { token })).status).toBe(200);
      const renamed = await world.call("PATCH", world.A, { displayName: "x" }, { token });
      expect(renamed.status).toBe(403);

      await page.goto(`${world.origin}/connected-applications`);
      const item = page.getByRole("listitem").filter({ hasText: app.clientId });
      expect(await item.textContent()).toMatch(/Notes for Berth.*reader of/s);
      await item.getByRole("button", { name: "Revoke the access of Notes for Berth" }).click();
      await page.getByText("Its access has ended.").waitFor();
      expect(await item.count()).toBe(0);
      await expect
        .poll(async () => (await world.call("GET", world.A, undefined, { token })).status)
        .toBe(401);
      expect(refusedByPolicy).toEqual([]);
    },
  );

  test("an application that is denied is told so, at login and at consent", async () => {
    const { page, refusedByPolicy } = await newPage();
    const app = await native();
    await page.goto(app.authorizeUrl());
    await page.getByRole("button", { name: "Cancel" }).click();
    await atProgram(page);
    expect(new URL(page.url()).searchParams.get("error")).toBe("access_denied");
    await toConsent(page, app.authorizeUrl());
    await page.getByRole("button", { name: "Deny" }).click();
    await atProgram(page);
    const { searchParams } = new URL(page.url());
    expect([searchParams.get("error"), searchParams.get("state")]).toEqual(["access_denied", "some-state"]);
    expect(refusedByPolicy).toEqual([]);
  });

  test("the answer reaches an https application, and one with a scheme of its own", async () => {
    const { page, refusedByPolicy } = await newPage();
    const web = await application(world.origin, { redirect_uris: ["https://app.example.com/callback"] });
    await toConsent(page, web.authorizeUrl());
    expect(await page.getByText("app.example.com", { exact: true }).isVisible()).toBe(true);
    // Nothing answers there: that the browser asks is all that can be seen.
    const asked = page.waitForRequest((request) =>
      request.url().startsWith("https://app.example.com/callback"),
    );
    await allow(page);
    expect(new URL((await asked).url()).searchParams.get("code")).toMatch(/./);

    const custom = await application(world.origin, { redirect_uris: ["cursor://github.com/callback"] });
    await page.goto(custom.authorizeUrl());
    await page.getByRole("button", { name: "Continue as owner@example.com" }).click();
    await page.getByText("an application on this device (cursor:)").waitFor();
    const redirected = page.waitForResponse(
      (response) => response.headers().location?.startsWith("cursor:") ?? false,
    );
    await allow(page);
    const { location } = (await redirected).headers();
    expect(new URL(location!).searchParams.get("code")).toMatch(/./);
    expect(await heading(page)).toBe("Access given");
    expect(refusedByPolicy).toEqual([]);
  });

  test("a double click gives access once, and goes on", async () => {
    const { page } = await newPage();
    const app = await native();
    await toConsent(page, app.authorizeUrl());
    await page.getByRole("button", { name: "Allow access" }).dblclick();
    await atProgram(page);
    const { access_token } = await app.tokens(new URL(page.url()));
    expect(access_token).toMatch(/^\S+\.\S+\.\S+$/);
    const grants = await world.must<{ clientId: string }[]>("GET", "/me/mcp-grants");
    expect(grants.filter(({ clientId }) => clientId === app.clientId)).toHaveLength(1);
  });

  test("going back to an answered request says that it is over, and what to do", async () => {
    const { page } = await newPage();
    const app = await native();
    await toConsent(page, app.authorizeUrl());
    const consent = page.url();
    await allow(page);
    await atProgram(page);
    await page.goBack();
    expect(page.url()).toBe(consent);
    expect(await heading(page)).toBe("This request is over");
    expect(await page.getByText("begin again there").isVisible()).toBe(true);
    await page.goto(`${world.origin}/oauth/login?login_challenge=nonsense`);
    expect(await heading(page)).toBe("This request is over");
    await page.goto(`${world.origin}/oauth/login`);
    expect(await heading(page)).toBe("This request is over");
  });

  test("in two tabs two applications are connected", async () => {
    const { page } = await newPage();
    const other = await page.context().newPage();
    const apps = [await native(), await native()];
    await toConsent(page, apps[0]!.authorizeUrl());
    await other.goto(apps[1]!.authorizeUrl());
    await other.getByRole("button", { name: "Continue as" }).click();
    await other.getByRole("button", { name: "Allow access" }).waitFor();
    for (const [tab, app] of [
      [page, apps[0]!],
      [other, apps[1]!],
    ] as const) {
      await allow(tab);
      await atProgram(tab);
      expect(await app.tokens(new URL(tab.url()))).toHaveProperty("access_token");
    }
  });

  test("a session that ended in the middle: the user signs in and is back at the same request", async () => {
    const { page } = await newPage();
    const app = await native();
    await toConsent(page, app.authorizeUrl());
    const consent = page.url();
    const [cookie] = (await page.context().cookies()).filter(({ name }) => name === "berth_session");
    expect(cookie).toMatchObject({ httpOnly: true, sameSite: "Lax", path: "/" });
    await world.must("DELETE", "/sessions", undefined, cookie!.value);
    await allow(page);
    expect(await heading(page)).toBe("Sign in");
    await signIn(page);
    await page.waitForURL(consent);
    await allow(page);
    await atProgram(page);
  });

  test("another user of the browser is told that the request is not theirs, and signs in as the other", async () => {
    const ada = await world.member("editor");
    const { page } = await newPage();
    const app = await native();
    await toConsent(page, app.authorizeUrl());
    const consent = page.url();
    await page.goto(`${world.origin}/signin`);
    await signIn(page, ada);
    await page.waitForURL(/profile/);
    await page.goto(consent);
    expect(await heading(page)).toBe("This request is for another user");
    expect(await page.getByText(`You are signed in as ${ada.email}`).isVisible()).toBe(true);
    await page.getByRole("link", { name: `Sign in as ${OWNER.email}` }).click();
    await signIn(page);
    await page.waitForURL(consent);
    await allow(page);
    await atProgram(page);
  });

  test("a form that was opened as another user changes nothing", async () => {
    const ada = await world.member("editor");
    const { page } = await newPage();
    const app = await native();
    await toConsent(page, app.authorizeUrl());
    const tab = await page.context().newPage();
    await tab.goto(`${world.origin}/signin`);
    await signIn(tab, ada);
    await tab.waitForURL(/profile/);
    await allow(page);
    expect(await heading(page)).toBe("This form is out of date");
    await page.getByRole("link", { name: "Open the page again" }).click();
    expect(await heading(page)).toBe("This request is for another user");
  });

  test("a reader can give reader only, and chooses among the accounts; a wrong choice is a sentence", async () => {
    const { page } = await newPage();
    const ada = await world.member("reader");
    const app = await native();
    await toConsent(page, app.authorizeUrl(), ada);
    expect(await page.getByRole("radio", { name: /Editor/ }).count()).toBe(0);

    const handle = `own-${ada.userId.slice(-12)}`;
    await world.must("POST", "/accounts", { handle }, ada.token);
    await page.reload();
    await page.getByRole("radio", { name: handle }).check();
    await page.getByRole("radio", { name: /Editor/ }).check();
    await page.getByRole("radio", { name: /Your role: reader/ }).check();
    expect(await page.getByText("You are a reader of this account").isVisible()).toBe(true);
    await allow(page);
    expect(await page.getByRole("alert").textContent()).toContain("cannot grant editor");
    await page.getByRole("radio", { name: handle }).check();
    await page.getByRole("radio", { name: /Editor/ }).check();
    await allow(page);
    await atProgram(page);
    expect(await granted(ada.token)).toEqual([`${handle} editor`]);
  });

  test("a user without an account can deny only, one with a hundred chooses from a list", async () => {
    const { page } = await newPage();
    const ada = await world.member("reader");
    await world.must("DELETE", `${world.A}/members/${ada.userId}`);
    const app = await native();
    await toConsent(page, app.authorizeUrl(), ada);
    expect(await page.getByText("You are not a member of any account").isVisible()).toBe(true);
    expect(await page.getByRole("button", { name: "Allow access" }).count()).toBe(0);
    const handles = Array.from({ length: 100 }, (_, n) => `a${n}-${ada.userId.slice(-12)}`);
    for (const handle of handles) await world.must("POST", "/accounts", { handle }, ada.token);
    await page.reload();
    await page
      .getByRole("combobox", { name: "Account" })
      .selectOption({ label: `${handles[77]} (your role: owner)` });
    await allow(page);
    await atProgram(page);
    expect(await granted(ada.token)).toEqual([`${handles[77]} reader`]);
  });

  test("what a hostile client says of itself is text: no markup, link, picture or reversed letters", async () => {
    const { page } = await newPage();
    const name = `<img src=x onerror=alert(1)>"\u202Eevil\u2066</h2>${"w".repeat(40)}`;
    const app = await application(world.origin, {
      client_name: name,
      client_uri: "https://bank.example/page",
      logo_uri: "https://tracker.example/logo.png",
      redirect_uris: [program.redirectUri],
    });
    const elsewhere: string[] = [];
    page.on("request", (request) => !request.url().startsWith(world.origin) && elsewhere.push(request.url()));
    await toConsent(page, app.authorizeUrl());
    const shown = await page.getByRole("heading", { level: 2 }).textContent();
    expect(shown).toBe(`<img src=x onerror=alert(1)>"evil</h2>${"w".repeat(40)}`);
    expect(await page.getByText("https://bank.example/page").count()).toBe(1);
    expect(await page.locator("main img, main a[href^='http'], main script").count()).toBe(0);
    expect(elsewhere).toEqual([]);
  });
});
