import { expect, test } from "vitest";
import { openProxy } from "../../../services/kit/testing/proxy.ts";
import { inChromium } from "../pages/chromium.ts";
import { openConsole, screen, serviceOf } from "./browser.ts";

inChromium("the console: sessions, roles and connections", (stage) => {
  test("the session's token is in no script's reach, and another site's page can do nothing with its cookie", async () => {
    const { world, program } = stage;
    const { page } = await openConsole(stage);
    await page.getByRole("button", { name: "New project" }).waitFor();
    expect(
      await page.evaluate("document.cookie + JSON.stringify({ ...localStorage, ...sessionStorage })"),
    ).not.toMatch(/berth_ses_/);
    const attack = await page.context().newPage();
    await attack.goto(program.redirectUri);
    const outcome = await attack.evaluate(async (api) => {
      const tries = [
        fetch(`${api}/me`, { credentials: "include" }),
        fetch(`${api}/me`, { credentials: "include", headers: { "berth-console": "1" } }),
        fetch(`${api}/me/tokens`, { method: "POST", credentials: "include", body: '{"name":"stolen"}' }),
      ];
      const ended = await Promise.allSettled(tries);
      return ended.map((one) => (one.status === "fulfilled" ? one.value.status : "blocked"));
    }, world.baseUrl);
    expect(outcome).toEqual(["blocked", "blocked", "blocked"]);
    const { data } = await world.must<{ data: { name: string }[] }>("GET", "/me/tokens");
    expect(data.map(({ name }) => name)).not.toContain("stolen");
    await page.context().close();
  });

  test("who is signed out elsewhere signs in again and is back on the same screen", async () => {
    const { world } = stage;
    const { E, S } = await world.environment();
    await serviceOf(world, E, "web");
    const user = await world.member("editor");
    const { page } = await openConsole(stage, screen(S("web")), { user });
    await page.getByRole("heading", { name: "Never deployed" }).waitFor();
    const cookies = await page.context().cookies();
    const { value } = cookies.find(({ name }) => name === "berth_session")!;
    await world.must("DELETE", "/sessions", undefined, value);
    // The stream ends by itself: nothing is pressed.
    await page.getByRole("heading", { name: "Sign in" }).waitFor();
    await page.getByLabel("E-mail").fill(user.email);
    await page.getByLabel("Password").fill(user.password);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("heading", { name: "web", level: 1 }).waitFor();
    expect(page.url()).toBe(world.origin + screen(S("web")));
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByRole("heading", { name: "Sign in" }).waitFor();
    await page.context().close();
  });

  test("a role that was lowered meanwhile is said when it matters, and an environment that is gone is said at once", async () => {
    const { world } = stage;
    const { E, S } = await world.environment();
    await serviceOf(world, E, "web");
    const user = await world.member("editor");
    const { page } = await openConsole(stage, screen(S("web")), { user });
    await page.getByRole("button", { name: "Deploy" }).waitFor();
    await world.must("PATCH", `${world.A}/members/${user.userId}`, { role: "reader" });
    await page.getByRole("button", { name: "Deploy" }).click();
    await page.getByText("this needs editor").first().waitFor();
    await page.keyboard.press("Escape");
    await world.must("DELETE", E, { confirmImpact: true });
    await page.getByRole("heading", { name: "This is not here any more" }).waitFor();
    await page.context().close();
  });

  test("a lost connection is said, and what changed meanwhile is there when it is back", async () => {
    const { world } = stage;
    const { E } = await world.environment();
    await serviceOf(world, E, "web");
    const gateway = await openProxy(new URL(world.origin));
    const origin = new URL(gateway.of(world.origin)).origin;
    const { page } = await openConsole(stage, screen(E), { origin });
    await page.getByRole("row").filter({ hasText: "web" }).waitFor();
    gateway.shut();
    await page.getByText("connection lost, trying again").waitFor();
    await page.getByRole("link", { name: "may be out of date" }).waitFor();
    await serviceOf(world, E, "api");
    expect(await page.getByRole("row").filter({ hasText: "api" }).count()).toBe(0);
    await gateway.open();
    await page.getByRole("row").filter({ hasText: "api" }).waitFor();
    await page.getByRole("status").getByText("live").waitFor();
    await page.getByRole("link", { name: "may be out of date" }).waitFor({ state: "detached" });
    await page.context().close();
    gateway.shut();
  });
});
