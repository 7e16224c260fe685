import { expect, test } from "vitest";
import { program } from "../../../services/deployer/addons/testing.ts";
import { eventually } from "../../../services/kit/testing/testing.ts";
import { deployArchive, open, settled } from "../../support/apps.ts";
import { archiveOf } from "../../support/archives.ts";
import { inChromium } from "../pages/chromium.ts";
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

inChromium("the console: logs", (stage) => {
  test("lines arrive as they are written, are text, stop for a pause, and are thousands without a stutter", async () => {
    const { world } = stage;
    const { E, S } = await world.environment();
    await serviceOf(world, E, "web", { config: { replicas: 1 } });
    const archive = await archiveOf([
      { name: "server.js", content: APP },
      { name: "package.json", content: '{"name":"web","scripts":{"start":"node server.js"}}' },
    ]);
    await deployArchive(world, S("web"), archive);
    await settled(world, S("web"), 1);
    const { url } = await world.must<{ url: string }>("GET", S("web"));

    const { page, complaints } = await openConsole(stage, screen(`${S("web")}/logs`));
    const lines = page.getByRole("region", { name: "Log lines" });
    await lines.getByText(HOSTILE).waitFor();
    expect(await lines.locator("img").count()).toBe(0);
    await open(url, "/1");
    await lines.getByText("line 1", { exact: false }).waitFor();
    await page.getByRole("button", { name: "Pause" }).click();
    await open(url, "/5");
    await page.getByRole("button", { name: "Resume, 5 new" }).waitFor();
    expect(await lines.getByText("line 5").count()).toBe(0);
    await page.getByRole("button", { name: "Resume" }).click();
    await lines.getByText("line 5").waitFor();

    await open(url, "/3000");
    await lines.getByText("line 3000").waitFor();
    // Few of them are drawn.
    expect(await lines.locator("[data-index]").count()).toBeLessThan(200);
    await page.getByLabel("Find in the lines").fill("line 2999");
    await eventually("only what was looked for is shown", async () =>
      /1 of 30\d\d lines/.test((await page.locator(".tools").textContent()) ?? ""),
    );
    await page.getByLabel("Wrap").check();
    expect(complaints).toEqual([]);
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
