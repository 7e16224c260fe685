import { expect, test } from "vitest";
import { inChromium } from "../pages/chromium.ts";
import { openConsole, screen, serviceOf } from "./browser.ts";

inChromium("the console: the canvas of an environment", (stage) => {
  test("services are cards with arrows to the addons whose keys they receive; the table is for phones", async () => {
    const { world } = stage;
    const { E, S } = await world.environment();
    await serviceOf(world, E, "db", { type: "postgres" });
    await serviceOf(world, E, "cache", { type: "redis" });
    await serviceOf(world, E, "spare", { type: "redis" });
    for (const name of ["shop", "jobs", "alone"])
      await serviceOf(world, E, name, { type: name === "jobs" ? "worker" : "web" });
    const connect = (at: string, name: string, service: string, key: string) =>
      world.must("POST", `${at}/variables`, { name, connection: { service, key } });
    await connect(S("shop"), "DATABASE_URL", "db", "URL");
    await connect(S("shop"), "DB_HOST", "db", "HOST");
    await connect(S("shop"), "CACHE_URL", "cache", "URL");
    await connect(S("jobs"), "QUEUE_URL", "cache", "URL");
    const { page, complaints } = await openConsole(stage, screen(E));
    const loaded: string[] = [];
    page.on("request", (request) => loaded.push(request.url()));
    await page.getByRole("row").filter({ hasText: "shop" }).waitFor();
    expect(loaded.filter((url) => url.includes("/canvas-"))).toEqual([]);
    await page.getByRole("button", { name: "Canvas" }).click();
    await expect.poll(() => loaded.filter((url) => url.includes("/canvas-")).length).toBe(1);
    const users = page.getByRole("list", { name: "Services that use addons" });
    const used = page.getByRole("list", { name: "Addons that are used" });
    const shop = users.getByRole("listitem").filter({ has: page.getByRole("link", { name: "shop" }) });
    await shop.getByText("uses db by DATABASE_URL, DB_HOST").waitFor();
    await shop.getByText("uses cache by CACHE_URL").waitFor();
    await users.getByText("uses cache by QUEUE_URL").waitFor();
    expect(await used.getByRole("heading").allTextContents()).toEqual(
      expect.arrayContaining(["cache", "db"]),
    );
    await page.getByRole("heading", { name: "Without connections" }).waitFor();
    await page.getByRole("link", { name: "alone" }).waitFor();
    await page.getByRole("link", { name: "spare" }).waitFor();

    // Each arrow begins at a card and ends at another, also after the window got another size.
    const ends = () =>
      page.evaluate(() => {
        type Box = { left: number; right: number; top: number; bottom: number };
        type Part = { getAttribute(name: string): string; getBoundingClientRect(): Box };
        const { document } = globalThis as unknown as {
          document: { querySelector(what: string): Part; querySelectorAll(what: string): Iterable<Part> };
        };
        const area = document.querySelector(".canvas").getBoundingClientRect();
        const cards = [...document.querySelectorAll(".canvas [data-service]")].map((card) =>
          card.getBoundingClientRect(),
        );
        const touches = (x: number, y: number, side: "left" | "right") =>
          cards.some((card) => Math.abs(card[side] - x) < 2 && card.top < y && y < card.bottom);
        return [...document.querySelectorAll(".canvas path")].map((path) => {
          const numbers = path
            .getAttribute("d")
            .match(/-?[\d.]+/g)!
            .map(Number);
          const at = (n: number) => [numbers[n]! + area.left, numbers[n + 1]! + area.top] as const;
          return touches(...at(0), "right") && touches(...at(6), "left");
        });
      });
    await expect.poll(ends).toEqual([true, true, true]);
    await page.setViewportSize({ width: 900, height: 700 });
    await expect.poll(ends).toEqual([true, true, true]);

    // By keyboard: a card that has the focus shows its own arrows.
    await shop.getByRole("link", { name: "shop" }).focus();
    await expect.poll(() => page.locator(".canvas path.active").count()).toBe(2);
    // It is live.
    await world.must("PATCH", S("alone"), { name: "renamed" });
    await page.getByRole("link", { name: "renamed" }).waitFor();
    await world.must("DELETE", `${S("jobs")}`, { confirmImpact: true });
    await expect.poll(() => page.locator(".canvas path").count()).toBe(2);

    // What is opened again is the canvas, and a phone has the table.
    await page.reload();
    await shop.getByText("uses cache by CACHE_URL").waitFor();
    await page.setViewportSize({ width: 500, height: 700 });
    await page.getByRole("row").filter({ hasText: "shop" }).waitFor();
    expect(await page.getByRole("button", { name: "Canvas" }).count()).toBe(0);
    await page.setViewportSize({ width: 1000, height: 700 });
    await users.waitFor();
    await page.keyboard.press("Tab");
    await shop.getByRole("link", { name: "shop" }).press("Enter");
    await page.getByRole("heading", { name: "shop", level: 1 }).waitFor();
    expect(complaints).toEqual([]);
    await page.context().close();
  });

  test("of many services as many are drawn as can be taken in, and the others are counted and found by name", async () => {
    const { world } = stage;
    const { E } = await world.environment();
    const names = Array.from({ length: 70 }, (_, n) => `s${String(n).padStart(2, "0")}`);
    for (let at = 0; at < names.length; at += 14)
      await Promise.all(
        names.slice(at, at + 14).map((name) => serviceOf(world, E, name, { type: "worker", staged: true })),
      );
    const { page, complaints } = await openConsole(stage, `${screen(E)}?view=canvas`);
    await page.getByText("10 more are not drawn.").waitFor();
    expect(await page.locator("[data-service]").count()).toBe(60);
    await page.getByLabel("Filter by name").fill("s69");
    await page.getByRole("link", { name: "s69" }).waitFor();
    expect(await page.locator("[data-service]").count()).toBe(1);
    expect(complaints).toEqual([]);
    await page.context().close();
  });
});
