import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { openProxy } from "../../../services/kit/testing/proxy.ts";
import { inChromium, signIn } from "../pages/chromium.ts";
import { openConsole, screen, serviceOf } from "./browser.ts";

/** What has the focus: the words of a control, the id of the content. */
const focused = (page: Page) =>
  page.evaluate("document.activeElement.id || document.activeElement.textContent");

inChromium("the console: what comes between", (stage) => {
  test("a connection that was lost for a moment is live again though nothing changed meanwhile", async () => {
    const { world } = stage;
    const { E, S } = await world.environment();
    await serviceOf(world, E, "web");
    const gateway = await openProxy(new URL(world.origin));
    const origin = new URL(gateway.of(world.origin)).origin;
    const { page } = await openConsole(stage, screen(`${S("web")}/logs`), { origin });
    const marks = page.getByRole("status");
    await expect.poll(() => marks.getByText("live").count()).toBe(2);
    gateway.shut();
    await marks.getByText("connection lost, trying again").first().waitFor();
    await gateway.open();
    await expect.poll(() => marks.getByText("live").count(), { timeout: 60_000 }).toBe(2);
    await page.context().close();
    gateway.shut();
  });

  test("a screen that cannot be loaded leaves the page as it is, and is there when the connection is back", async () => {
    const { world } = stage;
    const { E, S } = await world.environment();
    await serviceOf(world, E, "web");
    const { page } = await openConsole(stage, screen(S("web")));
    await page.getByRole("heading", { name: "Never deployed" }).waitFor();
    await page.context().setOffline(true);
    await page.getByRole("link", { name: "Settings" }).click();
    await page.getByRole("alert").getByText("You are offline").waitFor();
    await page.getByRole("button", { name: "Sign out" }).waitFor();
    await page.context().setOffline(false);
    await page.getByRole("button", { name: "Try again" }).click();
    await page.getByRole("heading", { name: "Source and start" }).waitFor();
    await page.context().close();
  });

  test("whoever could not be signed out is told so", async () => {
    const { world } = stage;
    const { page } = await openConsole(stage);
    await page.route("**/v1/sessions", (route) => route.abort());
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByRole("alert").getByText("You are still signed in.").waitFor();
    await page.unroute("**/v1/sessions");
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByRole("heading", { name: "Sign in" }).waitFor();
    expect(
      (await page.request.get(`${world.baseUrl}/me`, { headers: { "berth-console": "1" } })).status(),
    ).toBe(401);
    await page.context().close();
  });

  test("what was typed in a dialog outlives the session, and is sent after another sign-in", async () => {
    const { world } = stage;
    const { E, S } = await world.environment();
    await serviceOf(world, E, "web");
    const user = await world.member("editor");
    const { page } = await openConsole(stage, screen(`${S("web")}/variables`), { user });
    await page.getByRole("button", { name: "New variable" }).click();
    await page.getByLabel("Name").fill("TYPED");
    await page.getByLabel("Value").fill("for minutes");
    const cookies = await page.context().cookies();
    const { value } = cookies.find(({ name }) => name === "berth_session")!;
    await world.must("DELETE", "/sessions", undefined, value);
    await page.getByText("connection lost, trying again").first().waitFor();
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByRole("alert").getByText("You are signed out.").waitFor();
    const [other] = await Promise.all([
      page.context().waitForEvent("page"),
      page.getByRole("alert").getByRole("link", { name: "Sign in" }).click(),
    ]);
    await signIn(other, user);
    await other.getByRole("button", { name: "Sign out" }).waitFor();
    await page.bringToFront();
    expect(await page.getByLabel("Value").inputValue()).toBe("for minutes");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByRole("row").filter({ hasText: "TYPED" }).getByText("for minutes").waitFor();
    await page.context().close();
  });

  test("a form that is sent twice before it is drawn as busy is sent once", async () => {
    const { page } = await openConsole(stage, screen("/me/tokens"));
    let sent = 0;
    page.on("request", (request) => {
      if (request.method() === "POST" && request.url().endsWith("/v1/me/tokens")) sent++;
    });
    await page.getByRole("button", { name: "New token" }).click();
    await page.getByLabel("Name").fill("once");
    await page.evaluate(`{
      const form = document.querySelector("dialog form");
      form.requestSubmit();
      form.requestSubmit();
    }`);
    await page.getByRole("textbox", { name: "Token" }).waitFor();
    // The token can be copied at once.
    expect(await page.evaluate("String(getSelection())")).toMatch(/^berth_pat_/);
    expect(sent).toBe(1);
    await page.context().close();
  });

  test("the focus goes back to what opened a dialog, and to the screen where that is gone", async () => {
    const { world } = stage;
    const { E } = await world.environment();
    await serviceOf(world, E, "web");
    const { page } = await openConsole(stage, screen("/me/tokens"));
    await page.getByRole("button", { name: "New token" }).focus();
    await page.keyboard.press("Enter");
    await page.getByLabel("Name").fill("of the focus");
    await page.keyboard.press("Enter");
    await page.getByRole("textbox", { name: "Token" }).waitFor();
    await page.keyboard.press("Escape");
    await expect.poll(() => focused(page)).toBe("New token");
    const row = page.getByRole("row").filter({ hasText: "of the focus" });
    // A time to come is not now.
    await row.getByText(/^(?:in \d+ days|next month)$/).waitFor();
    await row.getByRole("button", { name: "Revoke" }).focus();
    await page.keyboard.press("Enter");
    await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).press("Enter");
    await row.waitFor({ state: "detached" });
    await expect.poll(() => focused(page)).toBe("content");
    await page.goto(world.origin + screen(E));
    await page.getByRole("link", { name: "web", exact: true }).press("Enter");
    await page.getByRole("heading", { name: "Never deployed" }).waitFor();
    await expect.poll(() => focused(page)).toBe("content");
    await page.context().close();
  });
});
