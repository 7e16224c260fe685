import { join } from "node:path";
import { expect, test } from "vitest";
import { sample } from "../../../services/kit/testing/sample.ts";
import { accessibilityFaults, complaintsOf } from "../../support/browser.ts";
import { application } from "./application.ts";
import { allow, atProgram, inChromium, nativeApp, newPage, signIn, toConsent } from "./chromium.ts";

/** A folder for pictures of all pages, such as those of docs/oauth.md#pages; none are taken without it. */
const PICTURES = process.env.PICTURES;

const wide = { width: 1000, height: 900 };
const phone = { width: 360, height: 740 };
const LOOKS = [
  ["light", wide],
  ["dark", wide],
  ["light", phone],
  ["dark", phone],
] as const;

inChromium("the looks of the pages", (stage) => {
  /** Opens a page with this look; `check` judges what it shows. */
  async function openWith([colorScheme, viewport]: (typeof LOOKS)[number]) {
    const { page } = await newPage(stage, { bypassCSP: true, colorScheme, viewport });
    const heard = complaintsOf(page, stage.world.origin);
    // The browser itself complains of pages that are refusals; the program is elsewhere.
    const expected = (complaint: string) =>
      /Failed to load/.test(complaint) || complaint.startsWith(stage.program.redirectUri);
    const check = async (name: string, at = page) => {
      await at.getByRole("heading", { level: 1 }).waitFor();
      expect([name, await accessibilityFaults(at)]).toEqual([name, []]);
      const overflow = await at.evaluate("document.documentElement.scrollWidth - innerWidth");
      expect([name, overflow]).toEqual([name, 0]);
      const file = `${name}-${colorScheme}-${viewport.width}.png`;
      if (PICTURES) await at.screenshot({ path: join(PICTURES, file), fullPage: true });
    };
    return { page, check, complaints: () => heard.filter((complaint) => !expected(complaint)) };
  }

  test.each(sample("looks of the pages", LOOKS, 1))(
    "axe finds nothing on any page, %s at %o, and nothing is wider than the screen",
    async (...look) => {
      const { world } = stage;
      const { page, check, complaints } = await openWith(look);
      type User = Awaited<ReturnType<typeof world.member>>;
      const makeAccount = (user: User, handle: string, displayName: string) => {
        const account = { handle: `${handle}-${user.userId.slice(-6)}`, displayName };
        return world.must<{ id: string }>("POST", "/accounts", account, user.token);
      };
      const app = await application(world.origin, {
        client_name: "Field notes",
        redirect_uris: [stage.program.redirectUri],
        client_uri: "https://app.example.com",
      });
      const user = await world.member("editor");
      await makeAccount(user, "ada", "My own");
      await page.goto(app.authorizeUrl());
      await check("login");
      await signIn(page, { ...user, password: "not-the-password" });
      await page.getByRole("alert").waitFor();
      await check("login-refused");
      await signIn(page, user);
      await page.getByRole("heading", { name: "Give an application access" }).waitFor();
      await check("consent");
      await page.getByRole("radio", { name: "My own" }).check();
      await page.getByRole("radio", { name: /Editor/ }).check();
      const consent = page.url();
      await allow(page);
      await atProgram(page, stage);
      await page.goto(consent);
      await check("over");
      const custom = await application(world.origin, { redirect_uris: ["notes://callback"] });
      await page.goto(custom.authorizeUrl());
      await page.getByText("Sign in as somebody else").click();
      await check("login-again");
      // A tab of its own: the browser's question whether to open the program blocks what follows in it.
      const tab = await page.context().newPage();
      await tab.goto(custom.authorizeUrl());
      await tab.getByRole("button", { name: "Continue as" }).click();
      await tab.getByRole("radio", { name: "My own" }).check();
      const given = tab.waitForResponse(
        (response) => response.headers().location?.startsWith("notes:") ?? false,
      );
      await allow(tab);
      await given;
      await check("given", tab);
      await page.goto(`${world.origin}/oauth/error?error=invalid_target&error_description=Some+words`);
      await check("error");
      await page.goto(custom.authorizeUrl());
      await page.getByRole("button", { name: "Continue as" }).click();
      await page.getByRole("button", { name: "Allow access" }).waitFor();
      const consentPage = page.url();
      const invited = await world.member("reader");
      const { id } = await makeAccount(invited, "team", "A team");
      const invitation = { email: user.email, role: "reader" };
      await world.must("POST", `/accounts/${id}/members`, invitation, invited.token);
      for (const path of [
        "/connected-applications",
        "/profile",
        "/profile/password",
        "/profile/sessions",
        "/profile/invitations",
      ]) {
        await page.goto(world.origin + path);
        await check(path.split("/").at(-1)!);
        const [question] = await page.locator("summary").all();
        if (!question) continue;
        await question.click();
        await check(`${path.split("/").at(-1)}-asked`);
      }
      const body = new URLSearchParams({ client_id: "berth-cli", scope: "platform:read platform:write" });
      const asked = await fetch(`${world.origin}/oauth2/device_authorization`, { method: "POST", body });
      const { verification_uri_complete: withCode } = (await asked.json()) as Record<string, string>;
      await page.goto(withCode!);
      await check("device-code");
      await page.getByRole("button", { name: "Continue" }).click();
      await page.getByRole("button", { name: "Allow access" }).waitFor();
      await check("device");
      for (const name of ["subscribed", "not-subscribed", "portal-closed"]) {
        await page.goto(`${world.origin}/billing/${name}`);
        await check(name);
      }
      const left = await page.context().newPage();
      await left.goto(consentPage);
      await page.goto(`${world.origin}/signin`);
      await check("signin");
      await signIn(page, invited);
      await page.waitForURL(/console|profile/);
      await page.goto(consentPage);
      await check("other-user");
      await left.getByRole("button", { name: "Deny" }).click();
      await check("out-of-date", left);
      const newcomer = { email: `new-${user.email}`, role: "reader" };
      const { link } = await world.must<{ link: string }>("POST", `${world.A}/members`, newcomer);
      await page.goto(link);
      await page.getByRole("button", { name: "Accept the invitation" }).waitFor();
      await check("invitation");
      for (const [name, path] of Object.entries({ ask: "/password-reset", set: "/password-reset#token" })) {
        await page.goto(world.origin + path);
        await page.getByRole("button", { name: /Mail me|Set the/ }).waitFor();
        await check(`password-reset-${name}`);
      }
      expect(complaints()).toEqual([]);
      await page.context().close();
    },
  );

  test("axe finds nothing on the consent of a user without an account, nor of one with a hundred", async () => {
    const { world } = stage;
    const [nobody, crowd] = [await world.member("reader"), await world.member("reader")];
    await world.must("DELETE", `${world.A}/members/${nobody.userId}`);
    for (let n = 1; n < 100; n++)
      await world.must("POST", "/accounts", { handle: `a${n}-${crowd.userId.slice(-12)}` }, crowd.token);
    const app = await nativeApp(stage);
    for (const look of sample("looks of a consent", LOOKS, 1))
      for (const [name, user] of Object.entries({ nobody, crowd })) {
        const { page, check, complaints } = await openWith(look);
        await toConsent(page, app, user);
        await check(`consent-of-${name}`);
        expect(complaints()).toEqual([]);
        await page.context().close();
      }
  });
});
