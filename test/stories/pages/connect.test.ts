import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { application } from "./application.ts";
import {
  allow,
  atProgram,
  formOf,
  heading,
  inChromium,
  nativeApp,
  newPage,
  OWNER,
  toConsent,
} from "./chromium.ts";

inChromium("connecting an application in a browser", (stage) => {
  const granted = async (token: string) => {
    type Grant = { accountHandle: string; role: string };
    const grants = await stage.world.must<Grant[]>("GET", "/me/mcp-grants", undefined, token);
    return grants.map(({ accountHandle, role }) => `${accountHandle} ${role}`);
  };

  test.each([true, false])(
    "a user signs in, gives access to one account, sees it and revokes it (JavaScript: %s)",
    async (javaScriptEnabled) => {
      const { page, refusedByPolicy } = await newPage(stage, { javaScriptEnabled });
      const app = await nativeApp(stage);
      await toConsent(page, app);
      expect(await page.getByText("Self-registered, unverified.").isVisible()).toBe(true);
      expect(await page.getByText("Used with").count()).toBe(0);
      expect(await page.getByText("This application runs on your own computer.").isVisible()).toBe(true);
      expect(await page.getByText(new URL(stage.program.redirectUri).host).isVisible()).toBe(true);
      await allow(page);
      await atProgram(page, stage);
      const { access_token: token } = await app.tokens(new URL(page.url()));
      expect((await stage.world.call("GET", stage.world.A, undefined, { token })).status).toBe(200);
      const renamed = await stage.world.call("PATCH", stage.world.A, { displayName: "x" }, { token });
      expect(renamed.status).toBe(403);

      await page.goto(`${stage.world.origin}/connected-applications`);
      const item = page.getByRole("listitem").filter({ hasText: app.clientId });
      expect(await item.textContent()).toMatch(/Notes for Berth.*reader of/s);
      const revoke = item.getByRole("button", { name: "Revoke access of Notes for Berth" });
      expect(await revoke.isVisible()).toBe(false);
      await item.getByText("Revoke…").press("Enter");
      await item.getByText("The application immediately loses its access to").waitFor();
      expect((await stage.world.call("GET", stage.world.A, undefined, { token })).status).toBe(200);
      await revoke.click();
      await page.getByText("Access revoked.").waitFor();
      expect(await item.count()).toBe(0);
      await expect
        .poll(async () => (await stage.world.call("GET", stage.world.A, undefined, { token })).status)
        .toBe(401);
      expect(refusedByPolicy).toEqual([]);
    },
  );

  test("an application that is denied is told so, at login and at consent", async () => {
    const { page, refusedByPolicy } = await newPage(stage);
    const app = await nativeApp(stage);
    await page.goto(app.authorizeUrl());
    await page.getByRole("button", { name: "Cancel" }).click();
    await atProgram(page, stage);
    expect(new URL(page.url()).searchParams.get("error")).toBe("access_denied");
    await toConsent(page, app);
    await page.getByRole("button", { name: "Deny" }).click();
    await atProgram(page, stage);
    const { searchParams } = new URL(page.url());
    expect([searchParams.get("error"), searchParams.get("state")]).toEqual(["access_denied", "some-state"]);
    expect(refusedByPolicy).toEqual([]);
  });

  test("the answer reaches an https application, and one with a scheme of its own", async () => {
    const { page, refusedByPolicy } = await newPage(stage);
    const web = await application(stage.world.origin, {
      redirect_uris: ["https://app.example.com/callback"],
    });
    await toConsent(page, web);
    expect(await page.getByText("app.example.com", { exact: true }).isVisible()).toBe(true);
    // Nothing answers there: that the browser asks is all that can be seen.
    const asked = page.waitForRequest((request) =>
      request.url().startsWith("https://app.example.com/callback"),
    );
    await allow(page);
    expect(new URL((await asked).url()).searchParams.get("code")).toMatch(/./);

    const custom = await application(stage.world.origin, { redirect_uris: ["cursor://github.com/callback"] });
    // A tab of its own: the other one is still busy with the application that does not answer.
    const tab = await page.context().newPage();
    await tab.goto(custom.authorizeUrl());
    await tab.getByRole("button", { name: "Continue as owner@example.com" }).click();
    await tab.getByText("an application on this device (cursor:)").waitFor();
    const redirected = tab.waitForResponse(
      (response) => response.headers().location?.startsWith("cursor:") ?? false,
    );
    await allow(tab);
    const { location } = (await redirected).headers();
    expect(new URL(location!).searchParams.get("code")).toMatch(/./);
    expect(await heading(tab)).toBe("Access granted");
    expect(refusedByPolicy).toEqual([]);
  });

  /** Sends the form of a button twice at once, as a double click does, and returns where both answers lead. */
  async function sendTwice(page: Page, button: string): Promise<URL> {
    const { action, form } = await formOf(page, button);
    const sent = await Promise.all([1, 2].map(() => page.request.post(action, { form, maxRedirects: 0 })));
    const texts = await Promise.all(sent.map((answer) => answer.text()));
    expect([sent.map((answer) => answer.status()), texts[1]]).toEqual([[200, 200], texts[0]]);
    const goesTo = /http-equiv="refresh" content="0;url=([^"]+)"/.exec(texts[0]!)![1]!;
    await page.goto(goesTo.replaceAll("&amp;", "&"));
    return new URL(page.url());
  }

  test("a form that is sent twice has the outcome of one, whichever it is", async () => {
    const { page } = await newPage(stage);
    const app = await nativeApp(stage);
    const grants = async () => {
      const all = await stage.world.must<{ clientId: string }[]>("GET", "/me/mcp-grants");
      return all.filter(({ clientId }) => clientId === app.clientId).length;
    };
    await page.goto(app.authorizeUrl());
    expect((await sendTwice(page, "Cancel")).searchParams.get("error")).toBe("access_denied");
    await page.goto(app.authorizeUrl());
    await page.getByLabel("E-mail").fill(OWNER.email);
    await page.getByLabel("Password").fill(OWNER.password);
    expect((await sendTwice(page, "Sign in")).pathname).toBe("/oauth/consent");
    expect((await sendTwice(page, "Deny")).searchParams.get("error")).toBe("access_denied");
    expect(await grants()).toBe(0);
    await page.goto(app.authorizeUrl());
    expect((await sendTwice(page, `Continue as ${OWNER.email}`)).pathname).toBe("/oauth/consent");
    const back = await sendTwice(page, "Allow access");
    expect((await app.tokens(back)).access_token).toMatch(/^\S+\.\S+\.\S+$/);
    expect(await grants()).toBe(1);
  });

  test.each(["Deny", "Allow access"])("a double click on %s goes on to the application", async (button) => {
    const { page } = await newPage(stage);
    await toConsent(page, await nativeApp(stage));
    await page.getByRole("button", { name: button }).dblclick();
    await atProgram(page, stage);
  });

  test("going back to an answered request says that it is over, and what to do", async () => {
    const { page } = await newPage(stage);
    const app = await nativeApp(stage);
    await toConsent(page, app);
    const consent = page.url();
    await allow(page);
    await atProgram(page, stage);
    await page.goBack();
    expect(page.url()).toBe(consent);
    expect(await heading(page)).toBe("This request is over");
    expect(await page.getByText("start again in the application").isVisible()).toBe(true);
    await page.goto(`${stage.world.origin}/oauth/login?login_challenge=nonsense`);
    expect(await heading(page)).toBe("This request is over");
    await page.goto(`${stage.world.origin}/oauth/login`);
    expect(await heading(page)).toBe("This request is over");
  });

  test("a reader can give reader only, and chooses among the accounts; a wrong choice is a sentence", async () => {
    const { page } = await newPage(stage);
    const ada = await stage.world.member("reader");
    const app = await nativeApp(stage);
    await toConsent(page, app, ada);
    expect(await page.getByRole("radio", { name: /Editor/ }).count()).toBe(0);

    const handle = `own-${ada.userId.slice(-12)}`;
    await stage.world.must("POST", "/accounts", { handle }, ada.token);
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
    await atProgram(page, stage);
    expect(await granted(ada.token)).toEqual([`${handle} editor`]);
  });

  test("a user without an account can deny only, one with a hundred chooses from a list", async () => {
    const { page } = await newPage(stage);
    const ada = await stage.world.member("reader");
    await stage.world.must("DELETE", `${stage.world.A}/members/${ada.userId}`);
    const app = await nativeApp(stage);
    await toConsent(page, app, ada);
    expect(await page.getByText("You are not a member of any account").isVisible()).toBe(true);
    expect(await page.getByRole("button", { name: "Allow access" }).count()).toBe(0);
    const handles = Array.from({ length: 100 }, (_, n) => `a${n}-${ada.userId.slice(-12)}`);
    for (const handle of handles) await stage.world.must("POST", "/accounts", { handle }, ada.token);
    await page.reload();
    await page
      .getByRole("combobox", { name: "Account" })
      .selectOption({ label: `${handles[77]} (your role: owner)` });
    await allow(page);
    await atProgram(page, stage);
    expect(await granted(ada.token)).toEqual([`${handles[77]} reader`]);
  });

  test("what a hostile client says of itself is text: no markup, link, picture or reversed letters", async () => {
    const { page } = await newPage(stage);
    const name = `<img src=x onerror=alert(1)>"\u202Eevil\u2066</h2>${"w".repeat(40)}`;
    const app = await application(stage.world.origin, {
      client_name: name,
      client_uri: "https://bank.example/page",
      logo_uri: "https://tracker.example/logo.png",
      redirect_uris: [stage.program.redirectUri],
    });
    const elsewhere: string[] = [];
    page.on(
      "request",
      (request) => !request.url().startsWith(stage.world.origin) && elsewhere.push(request.url()),
    );
    await toConsent(page, app);
    const shown = await page.getByRole("heading", { level: 2 }).textContent();
    expect(shown).toBe(`<img src=x onerror=alert(1)>"evil</h2>${"w".repeat(40)}`);
    expect(await page.getByText("https://bank.example/page").count()).toBe(1);
    expect(await page.locator("main img, main a[href^='http'], main script").count()).toBe(0);
    expect(elsewhere).toEqual([]);
  });
});
