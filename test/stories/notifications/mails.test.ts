import { join } from "node:path";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Mailbox } from "../../../services/kit/testing/smtp-server.ts";
import { eventually } from "../../../services/kit/testing/testing.ts";
import { accessibilityFaults, chromiumProgram, complaintsOf, openBrowser } from "../../support/browser.ts";
import { openMailedPlatform, type Platform } from "../../support/world.ts";

const KIND = "security.token_created";
/** A folder for pictures of the mails and pages; none are taken without it. */
const PICTURES = process.env.PICTURES;

let world: Platform;
let box: Mailbox;

beforeAll(async () => {
  ({ platform: world, box } = await openMailedPlatform());
});
afterAll(async () => {
  await world.stop();
  await box.stop();
});

type Preference = { kind: string; channel: string };
const owner = "owner@example.com";
const preferenceOf = async (kind: string) =>
  (await world.must<Preference[]>("GET", "/me/notification-prefs")).find((one) => one.kind === kind)!;

/** Has the owner mailed of a deployment that cannot be: returns the mail. */
async function failedDeployment(name: string) {
  await world.must("PUT", "/me/notification-prefs", {
    kind: "deploy.failed",
    channel: "both",
    frequency: "immediate",
  });
  const { E, S } = await world.environment();
  const source = { git: { repository: "https://127.0.0.1:1/none.git", branch: "main" } };
  await world.must("POST", `${E}/services`, { name, type: "web", source });
  await world.must("POST", `${S(name)}/deploy`, {});
  return eventually("the failure is mailed", async () =>
    box.for(owner).find(({ text, headers }) => text.includes(name) && headers.has("list-unsubscribe")),
  );
}

const linkIn = (mail: { headers: Map<string, string> }) =>
  mail.headers.get("list-unsubscribe")!.replace(/^<|>$/g, "");

/** What a mail program sends, as RFC 8058 says: from no page, with no cookie, and no redirect followed. */
function oneClick(link: string, multipart = false) {
  const body = multipart ? new FormData() : new URLSearchParams();
  body.set("List-Unsubscribe", "One-Click");
  return fetch(link, { method: "POST", body, redirect: "manual" });
}

test("one click of a mail program ends such mails, reading the link does not, and in the app they stay", async () => {
  const link = linkIn(await failedDeployment("first"));
  expect(link.startsWith(`${world.origin}/u/`)).toBe(true);
  for (const method of ["GET", "HEAD"]) expect((await fetch(link, { method })).status).toBe(200);
  expect((await preferenceOf("deploy.failed")).channel).toBe("both");
  for (const multipart of [true, false, true]) {
    const answer = await oneClick(link, multipart);
    expect([answer.status, answer.headers.getSetCookie()]).toEqual([200, []]);
    expect((await preferenceOf("deploy.failed")).channel).toBe("in_app");
  }
  const bad = await oneClick(`${link.slice(0, -2)}xx`);
  expect([bad.status, bad.headers.get("content-type")]).toEqual([404, "text/html; charset=utf-8"]);
  const gone = await fetch(`${world.origin}/u/x`);
  expect([gone.status, (await gone.text()).includes("This link does not work")]).toEqual([404, true]);
});

test("a forced mail comes though its user wants none, cannot be ended, and says where to choose", async () => {
  const choice = { kind: KIND, channel: "off", frequency: "weekly" };
  expect(await world.must("PUT", "/me/notification-prefs", choice)).toMatchObject({
    forceEmail: true,
    ...choice,
  });
  const name = "a token <b>of</b> mine";
  await world.must("POST", "/me/tokens", { name });
  const mail = await eventually("it is mailed", async () =>
    box.for(owner).find(({ text }) => text.includes("/me/tokens")),
  );
  expect(mail.headers.has("list-unsubscribe")).toBe(false);
  expect(mail.text).toContain(`${world.origin}/console/me/notification-prefs`);
  expect(mail.html).not.toContain("<b>");
});

if (!chromiumProgram) console.log("Skipped: mails and their pages in a browser. No Chromium on the PATH.");
describe.skipIf(!chromiumProgram)("in a browser", () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await openBrowser();
  });
  afterAll(() => browser?.close());

  test.each(["light", "dark"] as const)(
    "a mail and the pages of its link are accessible, %s",
    async (colorScheme) => {
      const mail = await failedDeployment(`web-${colorScheme}`);
      const context = await browser.newContext({
        bypassCSP: true,
        colorScheme,
        viewport: { width: 360, height: 740 },
      });
      const page = await context.newPage();
      const complaints = complaintsOf(page, world.origin);
      const check = async (name: string) => {
        await page.getByRole("heading", { level: 1 }).waitFor();
        expect([name, await accessibilityFaults(page)]).toEqual([name, []]);
        const overflow = await page.evaluate("document.documentElement.scrollWidth - innerWidth");
        expect([name, overflow]).toEqual([name, 0]);
        if (PICTURES)
          await page.screenshot({ path: join(PICTURES, `${name}-${colorScheme}.png`), fullPage: true });
      };
      await page.setContent(mail.html);
      await check("mail");
      await page.goto(linkIn(mail));
      await check("unsubscribe");
      await page.getByRole("button", { name: "Unsubscribe" }).click();
      await page.getByText("now in the app only").waitFor();
      await check("unsubscribed");
      expect((await preferenceOf("deploy.failed")).channel).toBe("in_app");
      await page.goto(linkIn(mail));
      await page.getByText("so nothing was changed").waitFor();
      await check("unsubscribe-again");
      expect(complaints).toEqual([]);
      await page.goto(`${world.origin}/u/x`);
      await check("unsubscribe-unknown");
      await context.close();
    },
  );
});
