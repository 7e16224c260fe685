import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { program } from "../../../services/deployer/addons/testing.ts";
import { eventually } from "../../../services/kit/testing/testing.ts";
import { deployArchive, open, settled } from "../../support/apps.ts";
import { archiveOf } from "../../support/archives.ts";
import { inChromium, type Stage } from "../pages/chromium.ts";
import { openConsole, screen, serviceOf } from "./browser.ts";

const HOSTILE = '<img src=x onerror="document.title=1">';

/** Writes what others would like to be markup, then as many lines as its path says. */
const APP = `
const http = require("node:http");
console.log(${JSON.stringify(`\u001b[31m${HOSTILE}\u001b[0m`)});
http.createServer((request, response) => {
  for (let n = 1; n <= Number(request.url.slice(1)); n++) console.log("line " + n);
  response.end("ok");
}).listen(process.env.PORT);
`;

/** A browser tells that it scrolled a moment later, when more lines may be there already. */
const TELL_SCROLLS_LATE = `
const box = document.querySelector("section.lines");
new MutationObserver(() => box.dispatchEvent(new Event("scroll")))
  .observe(box, { subtree: true, attributeFilter: ["style"] });
`;

/** Makes a page think that nobody sees it, or somebody again. */
const hide = (page: Page, hidden: boolean) =>
  page.evaluate(`
    Object.defineProperty(document, "hidden", { value: ${hidden}, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
  `);

/** Deploys the app, and returns the path of its service and its address. */
async function deployApp(world: Stage["world"]) {
  const { E, S: at } = await world.environment();
  const S = at("web");
  await serviceOf(world, E, "web", { config: { replicas: 1 } });
  const archive = await archiveOf([
    { name: "server.js", content: APP },
    { name: "package.json", content: '{"name":"web","scripts":{"start":"node server.js"}}' },
  ]);
  await deployArchive(world, S, archive);
  await settled(world, S, 1);
  const { url } = await world.must<{ url: string }>("GET", S);
  return { S, url };
}

inChromium("the console: logs", (stage) => {
  test("lines arrive as they are written, are text, stop for a pause, and are thousands without a stutter", async () => {
    const { world } = stage;
    const { S, url } = await deployApp(world);

    const { page, complaints } = await openConsole(stage, screen(`${S}/logs`));
    const lines = page.getByRole("region", { name: "Log lines" });
    const line = (text: string) => lines.locator("[data-index]").filter({ hasText: new RegExp(`${text}$`) });
    await lines.getByText(HOSTILE).waitFor();
    expect(await lines.locator("img").count()).toBe(0);
    await open(url, "/1");
    await line("line 1").waitFor();
    await page.getByRole("button", { name: "Pause" }).click();
    await open(url, "/5");
    await page.getByRole("button", { name: "Resume, 5 new" }).waitFor();
    expect(await line("line 5").count()).toBe(0);
    await page.getByRole("button", { name: "Resume" }).click();
    await line("line 5").waitFor();

    await page.evaluate(TELL_SCROLLS_LATE);
    await open(url, "/3000");
    await line("line 3000").waitFor();
    // Few of them are drawn, and somebody who reads further up is left there.
    expect(await lines.locator("[data-index]").count()).toBeLessThan(200);
    await lines.press("Home");
    await lines.getByText(HOSTILE).waitFor();
    const shown = parseInt((await page.locator(".tools .hint").textContent()) ?? "", 10);
    await open(url, "/7");
    await page.getByText(`${shown + 7} lines`, { exact: true }).waitFor();
    expect(await lines.getByText(HOSTILE).isVisible()).toBe(true);
    await page.getByLabel("Find in the lines").fill("line 2999");
    await eventually("only what was looked for is shown", async () =>
      /1 of 30\d\d lines/.test((await page.locator(".tools").textContent()) ?? ""),
    );
    await page.getByLabel("Wrap").check();
    expect(complaints).toEqual([]);
    await page.context().close();
  });

  test("older lines come once and above what is read, and a tab that was hidden for a while finds its lines again", async () => {
    const { world } = stage;
    const { S, url } = await deployApp(world);
    await open(url, "/700");

    const { page } = await openConsole(stage, screen(`${S}/logs`));
    const lines = page.getByRole("region", { name: "Log lines" });
    const shown = (count: number) => page.getByText(`${count} lines`, { exact: true }).waitFor();
    await shown(500);
    // More than a page of them arrive while it is open.
    await open(url, "/1500");
    await shown(2_000);
    await lines.press("Home");
    await lines.getByText("line 201", { exact: false }).first().waitFor();
    await page.getByRole("button", { name: "Older" }).click();
    const { data } = await world.must<{ data: object[] }>("GET", `${S}/logs?limit=1000`);
    expect(data.length).toBe(1_000);
    await shown(2_201);
    await expect.poll(() => lines.getByText(/ {2}line 201$/).isVisible()).toBe(true);
    await lines.press("Home");
    await lines.getByText(HOSTILE).waitFor();

    await page.clock.install();
    await hide(page, true);
    await page.clock.runFor(15_000);
    await page.getByRole("region", { name: "Log lines" }).getByText(HOSTILE).waitFor();
    await open(url, "/3");
    await hide(page, false);
    await shown(2_204);
    expect(await lines.getByText(HOSTILE).isVisible()).toBe(true);

    // What is wrapped and is not any more has its lines where they are.
    await page.getByLabel("Wrap").check();
    await page.getByLabel("Wrap").uncheck();
    await lines.press("End");
    await lines
      .getByText(/ {2}line 3$/)
      .last()
      .waitFor();
    await page.context().close();
  });

  test("an addon's log is a tab as an app's is, and one that it shares with others says so", async () => {
    const { world } = stage;
    const { E, S } = await world.environment();
    await serviceOf(world, E, "db", { type: "postgres" });
    const { page, complaints } = await openConsole(stage, screen(S("db")));
    await page.getByRole("link", { name: "Logs" }).click();
    await page.getByText("statements of other accounts").waitFor();
    if (program) {
      await serviceOf(world, E, "cache", { type: "redis" });
      await page.goto(world.origin + screen(`${S("cache")}/logs`));
      const lines = page.getByRole("region", { name: "Log lines" });
      await lines.getByText("Ready to accept connections").waitFor();
      expect(await page.getByLabel("Release").count()).toBe(0);
    }
    // Of the refused log.
    expect(complaints).toEqual([expect.stringContaining("422")]);
    await page.context().close();
  });
});
