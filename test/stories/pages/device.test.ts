import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { allow, formOf, heading, inChromium, newPage, signIn } from "./chromium.ts";

const GRANT = "urn:ietf:params:oauth:grant-type:device_code";

type Asked = {
  user_code: string;
  device_code: string;
  verification_uri: string;
  verification_uri_complete: string;
};

inChromium("connecting a device in a browser", (stage) => {
  const post = async (path: string, form: Record<string, string>) => {
    const body = new URLSearchParams({ client_id: "berth-cli", ...form });
    const answer = await fetch(stage.world.origin + path, { method: "POST", body });
    return (await answer.json()) as Record<string, string>;
  };
  const ask = async () => (await post("/oauth2/device_authorization", {})) as unknown as Asked;
  const poll = ({ device_code }: Asked) => post("/oauth2/token", { grant_type: GRANT, device_code });

  const enter = async (page: Page, code: string) => {
    await page.getByLabel("Code").fill(code);
    await page.getByRole("button", { name: "Continue" }).click();
  };

  test.each([true, false])(
    "a user signs in, enters the code, sees who asks and from where, and lets the device in (JavaScript: %s)",
    async (javaScriptEnabled) => {
      const { page, refusedByPolicy } = await newPage(stage, { javaScriptEnabled });
      const asked = await ask();
      await page.goto(asked.verification_uri);
      await signIn(page);
      await enter(page, "BCDF-GHJK");
      await page.getByRole("alert").getByText("This code is unknown").waitFor();
      await enter(page, asked.user_code.toLowerCase().replace("-", ""));
      await page.getByRole("heading", { name: "Berth CLI" }).waitFor();
      const card = await page.locator("section.client").textContent();
      expect(card).toMatch(
        new RegExp(`Shows the code${asked.user_code}.*Asks from127\\.0\\.0\\.1 \\(your own network\\)`, "s"),
      );
      expect(await page.getByText("Did somebody send you this code").isVisible()).toBe(true);
      expect(await poll(asked)).toMatchObject({ error: "authorization_pending" });
      await allow(page);
      await page.getByText("Go back to your device").waitFor();
      const { access_token: token } = await poll(asked);
      expect((await stage.world.call("GET", stage.world.A, undefined, { token: token! })).status).toBe(200);
      await page.getByRole("link", { name: "See connected applications" }).click();
      await page.getByRole("listitem").filter({ hasText: "Berth CLI" }).getByText("reader of").waitFor();
      expect(refusedByPolicy).toEqual([]);
    },
  );

  test("a code that a link brings is shown to be compared, and opens nothing by itself; a device can be denied", async () => {
    const { page } = await newPage(stage);
    const asked = await ask();
    await page.goto(asked.verification_uri_complete);
    await signIn(page);
    await page.getByText("This code came with a link.").waitFor();
    expect(await page.getByLabel("Code").inputValue()).toBe(asked.user_code);
    expect(await poll(asked)).toMatchObject({ error: "authorization_pending" });
    await page.getByRole("button", { name: "Continue" }).click();
    await page.getByRole("button", { name: "Deny" }).click();
    await page.getByText("The device does not get access.").waitFor();
    expect(await poll(asked)).toMatchObject({ error: "access_denied" });
    // Nobody puts text or markup on the page by a link.
    await page.goto(`${asked.verification_uri}?user_code=${encodeURIComponent('"><b id=x>')}`);
    expect([await heading(page), await page.locator("#x").count()]).toEqual(["Connect a device", 0]);
  });

  test("a form that is sent twice lets the device in once, and one of another site does nothing", async () => {
    const { page } = await newPage(stage);
    const asked = await ask();
    await page.goto(asked.verification_uri);
    await signIn(page);
    await enter(page, asked.user_code);
    const { action, form } = await formOf(page, "Allow access");
    const forged = await page.request.post(action, { form: { ...form, form_mark: "forged" } });
    expect(forged.status()).toBe(403);
    expect(await poll(asked)).toMatchObject({ error: "authorization_pending" });
    const sent = await Promise.all([1, 2].map(() => page.request.post(action, { form })));
    const texts = await Promise.all(sent.map((answer) => answer.text()));
    expect([sent.map((answer) => answer.status()), texts[1]]).toEqual([[200, 200], texts[0]]);
    expect(texts[0]).toContain("Access granted");
    expect(await poll(asked)).toHaveProperty("access_token");
  });
});
