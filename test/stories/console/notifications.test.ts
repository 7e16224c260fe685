import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { eventually } from "../../../services/kit/testing/testing.ts";
import { inChromium } from "../pages/chromium.ts";
import { openConsole, screen } from "./browser.ts";

const bell = (page: Page) => page.getByRole("link", { name: "Notifications" });
const count = (page: Page) => bell(page).locator(".count");
const shows = (page: Page, text: string) => count(page).getByText(text).waitFor();

type Preference = { kind: string; channel: string; frequency: string };

inChromium("the console: notifications", (stage) => {
  test("the bell counts in every tab of a browser by one stream, which another tab takes over, and in nobody else's", async () => {
    const { world } = stage;
    const user = await world.member("reader");
    const other = await openConsole(stage, screen("/notifications"), { user: await world.member("reader") });
    await other.page.getByRole("heading", { name: "No notifications yet" }).waitFor();
    const { page: first, complaints } = await openConsole(stage, screen(world.A), { user });
    const second = await first.context().newPage();
    let streams = 0;
    second.on("request", (request) => {
      if (request.url().endsWith("/notifications/stream")) streams++;
    });
    await second.goto(world.origin + screen("/notifications"));
    await second.getByRole("heading", { name: "No notifications yet" }).waitFor();

    await world.must("POST", "/me/tokens", { name: "one" }, user.token);
    await shows(first, "1");
    await shows(second, "1");
    await second.getByRole("link", { name: /token/i }).filter({ hasText: "one" }).waitFor();
    expect(streams).toBe(0);

    await first.close();
    await world.must("POST", "/me/tokens", { name: "two" }, user.token);
    await shows(second, "2");
    expect(streams).toBe(1);
    await second.getByRole("button", { name: "Mark all as read" }).click();
    await count(second).waitFor({ state: "detached" });
    expect(await count(other.page).count()).toBe(0);
    expect([...complaints, ...other.complaints]).toEqual([]);
    await other.page.context().close();
    await second.context().close();
  });

  test("a notification leads to its screen, and is read by that in another browser too", async () => {
    const { world } = stage;
    const joined = await world.member("editor");
    const user = { ...joined, password: `new ${joined.password}` };
    await world.must("POST", "/me/tokens", { name: "ci" }, user.token);
    await world.must("PUT", "/me/password", { current: joined.password, new: user.password }, user.token);
    await world.must("PATCH", `${world.A}/members/${user.userId}`, { role: "reader" });
    const [one, two] = await Promise.all([
      openConsole(stage, screen("/notifications"), { user }),
      openConsole(stage, screen("/notifications?unread=true"), { user }),
    ]);
    await one.page.getByRole("link", { name: /You are now/ }).waitFor();
    const before = Number((await count(two.page).textContent())?.replace(/\D/g, ""));
    await one.page.getByRole("listitem").filter({ hasText: "ci" }).getByRole("link").click();
    await one.page.getByRole("heading", { name: "Your tokens" }).waitFor();
    await shows(two.page, String(before - 1));
    await two.page.getByRole("listitem").filter({ hasText: "ci" }).waitFor({ state: "detached" });

    await two.page.getByRole("link", { name: "Your password was changed" }).click();
    await two.page.getByRole("heading", { name: "Sessions", exact: true }).waitFor();
    await shows(one.page, String(before - 2));
    expect([...one.complaints, ...two.complaints]).toEqual([]);
    await one.page.context().close();
    await two.page.context().close();
  });

  test("what one is notified of is chosen by kind; mails that are always sent cannot be switched off", async () => {
    const { world } = stage;
    const user = await world.member("owner");
    const { page, complaints } = await openConsole(stage, screen("/notifications"), { user });
    const of = async (kind: string) => {
      const all = await world.must<Preference[]>("GET", "/me/notification-prefs", undefined, user.token);
      const { channel, frequency } = all.find((one) => one.kind === kind)!;
      return `${channel} ${frequency}`;
    };
    await page.getByRole("link", { name: "What you are notified of" }).click();
    const row = (name: string) => page.getByRole("row").filter({ hasText: name });
    await row("Deployment is live").getByRole("checkbox", { name: "by mail" }).check();
    await row("Deployment is live").getByRole("combobox").selectOption("weekly");
    await expect.poll(() => of("deploy.ready")).toBe("both weekly");
    await row("Deployment is live").getByRole("checkbox", { name: "in the feed" }).uncheck();
    await expect.poll(() => of("deploy.ready")).toBe("email weekly");
    const forced = row("Invoice paid");
    await forced.getByText("always").waitFor();
    expect(await forced.getByRole("checkbox").count()).toBe(1);
    await forced.getByRole("checkbox", { name: "in the feed" }).uncheck();
    await expect.poll(() => of("billing.invoice_paid")).toBe("email immediate");
    await page.reload();
    await row("Deployment is live").getByRole("combobox").waitFor();
    expect(await row("Deployment is live").getByRole("combobox").inputValue()).toBe("weekly");
    expect(await forced.getByRole("checkbox").isChecked()).toBe(false);
    expect(complaints).toEqual([]);
    await page.context().close();
  });

  test("a burst of notifications is read in a few requests, and all of it is there", async () => {
    const { world } = stage;
    const user = await world.member("reader");
    const { page, complaints } = await openConsole(stage, screen("/notifications"), { user });
    await page.getByRole("heading", { name: "No notifications yet" }).waitFor();
    let reads = 0;
    page.on("request", (request) => {
      if (/\/notifications\?/.test(request.url())) reads++;
    });
    // Time passes in steps, so that a slow machine has no more of it.
    const STEP_MS = 100;
    await page.clock.install();
    await page.clock.pauseAt(Date.now() + 60_000);
    reads = 0;
    for (let n = 0; n < 40; n++) await world.must("POST", "/me/tokens", { name: `t${n}` }, user.token);
    let passedMs = 0;
    await eventually("all of them are listed", async () => {
      await page.clock.runFor(STEP_MS);
      passedMs += STEP_MS;
      return (await page.getByRole("listitem").count()) === 40;
    });
    expect(reads).toBeLessThan(3 + passedMs / 2_000);
    expect(complaints).toEqual([]);
    await page.context().close();
  });
});
