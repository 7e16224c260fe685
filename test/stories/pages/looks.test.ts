import { join } from "node:path";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { accessibilityFaults, chromiumProgram, complaintsOf, openBrowser } from "../../support/browser.ts";
import { startWorld, type World } from "../../support/world.ts";
import { application, listeningProgram } from "./application.ts";

if (!chromiumProgram) console.log("Skipped: the looks of the pages. No Chromium on the PATH.");

/** A folder for pictures of all pages, such as those of docs/oauth.md#pages; none are taken without it. */
const PICTURES = process.env.PICTURES;

describe.skipIf(!chromiumProgram)("the looks of the pages", () => {
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

  const wide = { width: 1000, height: 900 };
  const phone = { width: 360, height: 740 };

  test.each([
    ["light", wide],
    ["dark", wide],
    ["light", phone],
    ["dark", phone],
  ] as const)(
    "axe finds nothing on any page, %s at %o, and nothing is wider than the screen",
    async (colorScheme, viewport) => {
      const context = await browser.newContext({ bypassCSP: true, colorScheme, viewport });
      const page = await context.newPage();
      const complaints = complaintsOf(page, world.origin);
      const check = async (name: string, at = page) => {
        await at.getByRole("heading", { level: 1 }).waitFor();
        expect([name, await accessibilityFaults(at)]).toEqual([name, []]);
        const overflow = await at.evaluate("document.documentElement.scrollWidth - innerWidth");
        expect([name, overflow]).toEqual([name, 0]);
        const file = `${name}-${colorScheme}-${viewport.width}.png`;
        if (PICTURES) await at.screenshot({ path: join(PICTURES, file), fullPage: true });
      };
      const app = await application(world.origin, {
        client_name: "Field notes",
        redirect_uris: [program.redirectUri],
        client_uri: "https://app.example.com",
      });
      const user = await world.member("editor");
      await world.must(
        "POST",
        "/accounts",
        { handle: `ada-${user.userId.slice(-6)}`, displayName: "My own" },
        user.token,
      );
      await page.goto(app.authorizeUrl());
      await check("login");
      await page.getByLabel("E-mail").fill(user.email);
      await page.getByLabel("Password").fill("not-the-password");
      await page.getByRole("button", { name: "Sign in" }).click();
      await page.getByRole("alert").waitFor();
      await check("login-refused");
      await page.getByLabel("Password").fill(user.password);
      await page.getByRole("button", { name: "Sign in" }).click();
      await page.getByRole("heading", { name: "Give an application access" }).waitFor();
      await check("consent");
      await page.getByRole("radio", { name: "My own" }).check();
      await page.getByRole("radio", { name: /Editor/ }).check();
      const consent = page.url();
      await page.getByRole("button", { name: "Allow access" }).click();
      await page.waitForURL((url) => url.href.startsWith(program.redirectUri));
      await page.goto(consent);
      await check("over");
      const custom = await application(world.origin, { redirect_uris: ["notes://callback"] });
      await page.goto(custom.authorizeUrl());
      await page.getByText("Sign in as somebody else").click();
      await check("login-again");
      // A tab of its own: the browser's question whether to open the program blocks what follows in it.
      const tab = await context.newPage();
      await tab.goto(custom.authorizeUrl());
      await tab.getByRole("button", { name: "Continue as" }).click();
      await tab.getByRole("radio", { name: "My own" }).check();
      const given = tab.waitForResponse(
        (response) => response.headers().location?.startsWith("notes:") ?? false,
      );
      await tab.getByRole("button", { name: "Allow access" }).click();
      await given;
      await check("given", tab);
      await page.goto(`${world.origin}/oauth/error?error=invalid_target&error_description=Some+words`);
      await check("error");
      await page.goto(custom.authorizeUrl());
      await page.getByRole("button", { name: "Continue as" }).click();
      await page.getByRole("button", { name: "Allow access" }).waitFor();
      const asked = page.url();
      const invited = await world.member("reader");
      const account = { handle: `team-${invited.userId.slice(-6)}`, displayName: "A team" };
      const { id } = await world.must<{ id: string }>("POST", "/accounts", account, invited.token);
      const invitation = { email: user.email, role: "reader" };
      await world.must("POST", `/accounts/${id}/members`, invitation, invited.token);
      for (const path of [
        "/connected-applications",
        "/profile",
        "/profile/password",
        "/profile/sessions",
        "/profile/invitations",
        "/signin",
      ]) {
        await page.goto(world.origin + path);
        await check(path.split("/").at(-1)!);
      }
      await page.getByLabel("E-mail").fill(invited.email);
      await page.getByLabel("Password").fill(invited.password);
      await page.getByRole("button", { name: "Sign in" }).click();
      await page.waitForURL(/profile/);
      await page.goto(asked);
      await check("other-user");
      // The browser itself complains of pages that are refusals; the program is elsewhere.
      const expected = (complaint: string) =>
        /Failed to load/.test(complaint) || complaint.startsWith(program.redirectUri);
      expect(complaints.filter((complaint) => !expected(complaint))).toEqual([]);
      await context.close();
    },
  );
});
