import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { sample } from "../../../services/kit/testing/sample.ts";
import { accessibilityFaults } from "../../support/browser.ts";
import { inChromium } from "../pages/chromium.ts";
import { openConsole, screen, serviceOf } from "./browser.ts";
import { accountWithUsage, openShop, subscribe } from "./shop.ts";
import { zipOf } from "./zip.ts";

/** A folder for pictures of all screens; none are taken without it. */
const PICTURES = process.env.PICTURES;
const DIST = join(import.meta.dirname, "../../../clients/console/dist");

const LOOKS = [
  ["light", 1280],
  ["dark", 320],
  ["dark", 1280],
  ["light", 320],
] as const;

inChromium(
  "the looks of the console",
  (stage) => {
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
        await serviceOf(world, E, "cache", { type: "redis" });
        const connection = { service: "cache", key: "URL" };
        await world.must("POST", `${S("web")}/variables`, { name: "CACHE_URL", connection });
        const others = await accountWithUsage(world, S("web"));
        await subscribe(world);
        const url = "https://receiver.example.com/berth";
        const login = { host: "ghcr.io", user: "shop-deploy", token: "a-token-of-this-test" };
        // The account has it once for all looks.
        await world.call("POST", `${world.A}/registries`, login);
        const { id: hook } = await world.must<{ id: string }>("POST", `${world.A}/webhooks`, { url });
        await world.must("POST", `${world.A}/webhooks/${hook}/test`);
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
        // Where it is narrow there is no canvas.
        if (width > 700) {
          await press("Canvas");
          await page.getByText("uses cache by").waitFor();
          await check("canvas");
          await press("Table");
        }
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
        await press("Upload a folder");
        await page.getByLabel("Archive").setInputFiles({
          name: "web.zip",
          mimeType: "application/zip",
          buffer: zipOf([
            { name: ".env", content: "KEY=x" },
            { name: "node_modules/left/index.js" },
            { name: `${"a-long-folder/".repeat(9)}index.html`, content: "x".repeat(9_000) },
          ]),
        });
        await page.getByText("What is sent").click();
        await check("upload");
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
        await page
          .getByRole("row")
          .filter({ hasText: "GREETING" })
          .getByRole("button", { name: "History" })
          .click();
        await page.getByRole("dialog").getByRole("listitem").first().waitFor();
        await check("variable-history");
        await close();
        await go(screen(`${S("cache")}/backups`), "Back up now");
        await go(screen(`${S("web")}/settings`), "Delete web");
        await go(screen(`${world.A}/members`), "owner@example.com");
        await go(screen(`${world.A}/grants`), "No application has access");
        await go(screen(`${world.A}/audit-events`), "created the service");
        await go(screen("/me"), "Delete your user");
        await go(screen("/me/sessions"), "this session");
        await go(screen("/me/mcp-grants"), "No application has access");
        await go(screen("/me/tokens"), "Your tokens");
        await press("New token");
        await check("new-token");
        await close();
        await go(screen("/notifications"), "Mark as read");
        await go(screen("/me/notification-prefs"), "Deployment is live");
        await go(screen(`${world.A}/subscription`), "Card and address");
        await press("Change the plan");
        await page.getByRole("dialog").getByLabel("Plan").selectOption("team");
        await page.getByText("Returned for the rest of the period").waitFor();
        await check("change-plan");
        await close();
        await press("Cancel the plan");
        await page.getByText("Nothing is refunded").waitFor();
        await check("cancel-plan");
        await close();
        await go(screen(`${world.A}/statements`), "No statements yet");
        await go(screen(`${world.A}/invoices`), "$20.00");
        await go(screen(`${others}/compute-usage`), "As a table");
        await page.getByText("As a table").click();
        await page.getByText("Time spans behind it").click();
        await page.getByRole("cell", { name: "2 × large" }).waitFor();
        await check("usage-table");
        await page.goto(`${world.origin}${screen(others)}/subscription`);
        await page.getByText("Charged now").waitFor();
        await check("subscribe");
        await go(screen(`${world.A}/registries`), "ghcr.io");
        await press("Replace the token ghcr.io");
        await check("replace-token");
        await close();
        await go(screen(`${world.A}/webhooks`), "receiver.example.com");
        await press("New webhook");
        await check("new-webhook");
        await close();
        await page.goto(`${world.origin}${screen(`${world.A}/webhooks/${hook}`)}`);
        await page.getByRole("button", { name: "Body" }).first().waitFor();
        await check("webhook");
        await go(screen("/nowhere"), "There is no such screen");
        await go(screen(S("gone")), "There is no service of this name");
        expect(complaints.filter((complaint) => !complaint.includes("status of 404"))).toEqual([]);
        await page.context().close();
      },
    );
  },
  openShop,
);

/** Returns how many bytes files of the console are, compressed by gzip. */
const compressed = (files: string[]) =>
  files.reduce((sum, file) => sum + gzipSync(readFileSync(join(DIST, file)), { level: 9 }).length, 0);

test("the first screen loads at most 150 kB, compressed by gzip, and all screens together 320 kB", ({
  skip,
}) => {
  const html = (() => {
    try {
      return readFileSync(join(DIST, "index.html"), "utf8");
    } catch {
      return skip("the console could not be built");
    }
  })();
  const files = [...html.matchAll(/\/console\/(assets\/[^"]+)/g)].map(([, file]) => file!);
  expect(files.length).toBeGreaterThan(2);
  expect(compressed(files)).toBeLessThan(150_000);
  // The screens are loaded when they are opened.
  const assets = readdirSync(join(DIST, "assets")).filter((name) => /\.(?:js|css)$/.test(name));
  expect(assets.length).toBeGreaterThan(5);
  // Whoever opens every screen, the canvas too, has loaded this much.
  expect(compressed(assets.map((name) => `assets/${name}`))).toBeLessThan(320_000);
});
