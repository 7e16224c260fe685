import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { V1Pod, V1Secret } from "@kubernetes/client-node";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { connectKube, type Kube } from "../../services/deployer/kube/client.ts";
import { Pod, Secret } from "../../services/deployer/kube/kinds.ts";
import { eventually } from "../../services/kit/testing/testing.ts";
import { openConsole, screen } from "../stories/console/browser.ts";
import { open, settled } from "../support/apps.ts";
import { chromiumProgram, openBrowser } from "../support/browser.ts";
import { openPlatform, type Platform } from "../support/world.ts";
import { saying } from "./web-service.ts";

const { namespace, appsHost, origin } = inject("platform")!;

if (!chromiumProgram) console.log("Skipped: the console on a cluster. No Chromium on the PATH.");

describe.skipIf(!chromiumProgram)("the console on a cluster", () => {
  let world: Platform;
  let kube: Kube;
  let browser: Browser;
  let folder: string;
  let user: { email: string; password: string };

  beforeAll(async () => {
    world = await openPlatform();
    kube = connectKube();
    const { hostname } = new URL(origin);
    // The object store has a name of its own below the same domain.
    browser = await openBrowser(
      `--host-resolver-rules=MAP *.${hostname.split(".").slice(1).join(".")} ${appsHost}`,
    );
    folder = await mkdtemp(join(tmpdir(), "berth-console-"));
    const secret = await kube.get<V1Secret>(Secret, "owner", namespace);
    const password = Buffer.from(secret!.data!.password!, "base64").toString();
    user = { email: "owner@example.com", password };
  });
  afterAll(async () => {
    await browser?.close();
    await world?.stop();
    if (folder) await rm(folder, { recursive: true });
  });

  test("a folder is uploaded to the object store by the browser, built, and live without reloading", async () => {
    const { E, S } = await world.environment();
    const { page, complaints } = await openConsole({ browser, world }, screen(E), {
      user,
      ignoreHTTPSErrors: true,
    });
    await writeFile(join(folder, "server.js"), saying("from a browser"));
    await writeFile(join(folder, "package.json"), '{"scripts":{"start":"node server.js"}}');
    await page.getByRole("button", { name: "New service" }).click();
    await page.getByLabel("Name").fill("web");
    await page.getByLabel("What runs").selectOption("A folder or an archive");
    await page.getByRole("button", { name: "Create" }).click();
    await page.getByRole("heading", { name: "Upload to web" }).waitFor();
    await page.getByLabel("Folder").setInputFiles(folder);
    await page.getByText("2 files, ").waitFor();
    await page.getByRole("dialog").getByRole("button", { name: "Deploy" }).click();
    await page.getByRole("heading", { name: "v1" }).waitFor();
    await page.locator(".status", { hasText: "live" }).first().waitFor({ timeout: 240_000 });
    expect(await settled(world, S("web"), 1)).toMatchObject({ status: "applied" });
    const { url } = await world.must<{ url: string }>("GET", S("web"));
    expect((await open(url)).body).toBe("from a browser");
    // The upload goes to another host, which the policy of the page names.
    expect(complaints.filter((one) => !one.startsWith(`https://${namespace}-objects.`))).toEqual([]);
    expect(complaints.length).toBeGreaterThan(0);
    await page.context().close();
  });

  test("an open screen shows what changes after every gateway was replaced", async () => {
    const { E } = await world.environment();
    const { page } = await openConsole({ browser, world }, screen(E), { user, ignoreHTTPSErrors: true });
    await page.getByRole("heading", { level: 1 }).waitFor();
    const gateways = { namespace, labels: "app.kubernetes.io/component=gateway" };
    const before = (await kube.list(Pod, gateways)).items.map(({ metadata }) => metadata!.name!);
    for (const name of before) await kube.remove(Pod, name, namespace, { gracePeriodSeconds: 0 });
    // The ingress answers in its own words while there is no gateway, and the files after this one need one.
    await eventually("other gateways answer", async () => {
      const { items } = await kube.list<V1Pod>(Pod, gateways);
      const ready = items.filter(({ status }) =>
        status?.conditions?.some(({ type, status }) => type === "Ready" && status === "True"),
      );
      const replaced = ready.filter(({ metadata }) => !before.includes(metadata!.name!));
      if (replaced.length < before.length) return false;
      return (await world.call("GET", E).catch(() => undefined))?.status === 200;
    });
    await world.must("POST", `${E}/services`, { name: "later", type: "web" });
    await page.getByRole("link", { name: "later" }).first().waitFor({ timeout: 120_000 });
    await page.context().close();
  });
});
