import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { sample } from "../../../services/kit/testing/sample.ts";
import { accessibilityFaults } from "../../support/browser.ts";
import { inChromium } from "../pages/chromium.ts";
import { openConsole, screen, serviceOf } from "./browser.ts";

/** A folder for pictures of all screens; none are taken without it. */
const PICTURES = process.env.PICTURES;
const DIST = join(import.meta.dirname, "../../../clients/console/dist");

const LOOKS = [
  ["light", 1280],
  ["dark", 320],
  ["dark", 1280],
  ["light", 320],
] as const;

inChromium("the looks of the console", (stage) => {
  test.each(sample("looks of the console", LOOKS, 2))(
    "axe finds nothing on any screen, %s at %i px, and nothing is wider than the window",
    async (colorScheme, width) => {
      const { world } = stage;
      const { E, P, S } = await world.environment();
      await serviceOf(world, E, "web", { source: { image: "registry.example.com/shop/web:1.4.2" } });
      await serviceOf(world, E, "jobs", { type: "worker", staged: true });
      await world.must("POST", `${S("web")}/deploy`, {});
      await world.must("POST", `${P}/variables`, { name: "GREETING", value: "a ".repeat(200) });
      await world.must("POST", `${S("web")}/variables`, { name: "KEY", value: "x", sensitive: true });
      await world.must("POST", `${S("web")}/variables`, { name: "LOST", aliasTarget: "NOWHERE" });
      const { page, complaints } = await openConsole(stage, screen(E), {
        bypassCSP: true,
        colorScheme,
        viewport: { width, height: 900 },
      });
      const check = async (name: string) => {
        expect([name, await accessibilityFaults(page)]).toEqual([name, []]);
        const overflow = await page.evaluate("document.documentElement.scrollWidth - innerWidth");
        expect([name, overflow]).toEqual([name, 0]);
        const file = `console-${name}-${colorScheme}-${width}.png`;
        if (PICTURES) await page.screenshot({ path: join(PICTURES, file) });
      };
      const go = async (path: string, ready: string) => {
        await page.goto(world.origin + path);
        await page.getByText(ready).first().waitFor();
        await check(path.split("/").at(-1)!.replace(/_.*/, ""));
      };
      const press = (name: string) => page.getByRole("button", { name, exact: true }).click();
      const close = () => page.keyboard.press("Escape");

      await page.getByRole("row").filter({ hasText: "web" }).waitFor();
      await check("environment");
      await press("New service");
      await page.getByLabel("Name").waitFor();
      await check("new-service");
      await close();
      await go(screen(world.A), "production");
      await page.keyboard.press("Control+k");
      await page.getByRole("listbox").getByRole("option").first().waitFor();
      await check("switcher");
      await close();
      await go(screen(S("web")), "v1");
      await press("Deploy");
      await page
        .getByText(/This would be refused|Nothing changes|Source/)
        .first()
        .waitFor();
      await check("deploy");
      await close();
      await go(screen(`${S("web")}/deployments/1`), "All deployments");
      await go(screen(`${S("web")}/logs`), "No lines yet");
      await go(screen(`${S("web")}/runs`), "No runs yet");
      await press("Run a command");
      await page.getByRole("textbox", { name: "Command" }).waitFor();
      await check("new-run");
      await close();
      await go(screen(`${S("web")}/variables`), "GREETING");
      await press("New variable");
      await check("new-variable");
      await close();
      await go(screen(`${S("web")}/settings`), "Delete web");
      await go(screen(`${world.A}/members`), "owner@example.com");
      await go(screen("/me/tokens"), "Your tokens");
      await press("New token");
      await check("new-token");
      await close();
      await go(screen("/nowhere"), "There is no such screen");
      await go(screen(S("gone")), "There is no service of this name");
      expect(complaints.filter((complaint) => !complaint.includes("status of 404"))).toEqual([]);
      await page.context().close();
    },
  );
});

test("what a browser loads before the first screen is at most 150 kB, compressed by gzip", ({ skip }) => {
  const html = (() => {
    try {
      return readFileSync(join(DIST, "index.html"), "utf8");
    } catch {
      return skip("the console could not be built");
    }
  })();
  const files = [...html.matchAll(/\/console\/(assets\/[^"]+)/g)].map(([, file]) => file!);
  expect(files.length).toBeGreaterThan(2);
  const bytes = files.reduce(
    (sum, file) => sum + gzipSync(readFileSync(join(DIST, file)), { level: 9 }).length,
    0,
  );
  expect(bytes).toBeLessThan(150_000);
  // The screens are loaded when they are opened.
  expect(readdirSync(join(DIST, "assets")).filter((name) => name.endsWith(".js")).length).toBeGreaterThan(5);
});
