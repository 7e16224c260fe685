import { readFile } from "node:fs/promises";
import type { Page, Route } from "playwright-core";
import { expect, inject, test } from "vitest";
import { eventually } from "../../../services/kit/testing/testing.ts";
import { accessibilityFaults } from "../../support/browser.ts";
import { inChromium } from "../pages/chromium.ts";
import { openConsole, screen, serviceOf } from "./browser.ts";

const MINUTE_MS = 60_000;
/** An addon that this machine can back up. */
const type = inject("redisProgram") ? "redis" : inject("hasDumps") ? "postgres" : undefined;

const MAGIC = { postgres: "PGDMP", redis: "REDIS" };

/** Saves the backup of a row, and returns the file. */
async function download(page: Page): Promise<{ name: string; content: Buffer }> {
  const saving = page.waitForEvent("download");
  await page.getByRole("button", { name: "Download bkp_" }).click();
  const saved = await saving;
  return { name: saved.suggestedFilename(), content: await readFile(await saved.path()) };
}

inChromium("the console: backups", (stage) => {
  test.skipIf(type === undefined)(
    "an addon is backed up, restored after its name was typed, and the backup deleted; readers only see it",
    async () => {
      const { world } = stage;
      const { E, S } = await world.environment();
      await serviceOf(world, E, "db", { type });
      await eventually("it runs", async () => {
        const { status } = await world.must<{ status: string }>("GET", S("db"));
        return status === "running";
      });
      const { page, complaints } = await openConsole(stage, screen(S("db")), { bypassCSP: true });
      await page.getByRole("link", { name: "Backups" }).click();
      await page.getByRole("heading", { name: "No backups yet" }).waitFor();
      const dialog = page.getByRole("dialog");
      await page.getByRole("button", { name: "Back up now" }).click();
      await page.getByRole("row").filter({ hasText: "asked for" }).waitFor();
      await page.getByText("succeeded").waitFor();
      // One machine keeps no archive.
      expect(await page.getByRole("button", { name: /moment/ }).count()).toBe(0);
      // As an installation answers that could not restore it to the side.
      const damaged = "The redis server <cannot> read it.";
      const { data, ...rest } = await world.must<{ data: object[] }>("GET", `${S("db")}/backups`);
      const json = { ...rest, data: [{ ...data[0], proofFailure: damaged }] };
      await page.route(/\/backups\?/, (route) => route.fulfill({ json }));
      // Coming back to the screen reads them again.
      await page.getByRole("link", { name: "Settings" }).click();
      await page.getByRole("button", { name: "Delete db" }).waitFor();
      await page.getByRole("link", { name: "Backups" }).click();
      await page.getByText(`It could not be restored to the side. ${damaged}`).waitFor();
      await page.unroute(/\/backups\?/);
      expect(await accessibilityFaults(page)).toEqual([]);

      await page.getByRole("button", { name: "Restore bkp_" }).click();
      await dialog.getByText("What was written since then is lost").waitFor();
      expect(await accessibilityFaults(page)).toEqual([]);
      await dialog.getByLabel("Type db to confirm").fill("other");
      await dialog.getByRole("button", { name: "Restore" }).click();
      expect(await world.must("GET", S("db"))).not.toMatchObject({ backups: { restore: {} } });
      await dialog.getByLabel("Type db to confirm").fill("db");
      await dialog.getByRole("button", { name: "Restore" }).click();
      await dialog.waitFor({ state: "detached" });
      await page.getByText("Last restore, of").waitFor();
      await page.locator(".note .status", { hasText: "succeeded" }).waitFor();

      const reader = await openConsole(stage, screen(`${S("db")}/backups`), {
        user: await world.member("reader"),
      });
      await reader.page.getByText("asked for").waitFor();
      // What somebody else does is seen without asking.
      const { id: another } = await world.must<{ id: string }>("POST", `${S("db")}/backups`);
      const rows = [page, reader.page].map((one) => one.getByRole("row").filter({ hasText: another }));
      for (const row of rows) await row.getByText("succeeded").waitFor();
      await world.must("DELETE", `${S("db")}/backups/${another}`);
      for (const row of rows) await row.waitFor({ state: "detached" });
      const offered = /Back up|Restore|Download|Upload|Delete/;
      expect(await reader.page.getByRole("button", { name: offered }).count()).toBe(0);
      await reader.page.context().close();

      await page.getByRole("button", { name: "Fork bkp_" }).click();
      await dialog.getByText("with keys of its own").waitFor();
      expect(await accessibilityFaults(page)).toEqual([]);
      expect(await dialog.getByLabel("Name").inputValue()).toBe("db-2");
      // One machine has one version, and no volumes.
      expect(await dialog.getByLabel(/Version|Storage/).count()).toBe(0);
      await dialog.getByLabel("Environment").selectOption("production");
      await dialog.getByRole("button", { name: "Create" }).click();
      await page.waitForURL(/services\/db-2\/backups/);
      // While it is restored, the backup cannot be deleted.
      await page.locator(".note .status", { hasText: "succeeded" }).waitFor();
      await page.goBack();

      await page.getByRole("button", { name: "Delete bkp_" }).click();
      await dialog.getByText("cannot be restored any more").waitFor();
      await dialog.getByRole("button", { name: "Delete" }).click();
      await page.getByRole("heading", { name: "No backups yet" }).waitFor();
      expect(complaints).toEqual([]);
      await page.context().close();
    },
  );

  test.skipIf(type === undefined)(
    "an addon that was deleted is brought back from its newest backup, and an owner deletes that",
    async () => {
      const { world } = stage;
      const { E, S } = await world.environment();
      await serviceOf(world, E, "lost", { type });
      await eventually("it runs", async () => {
        const { status } = await world.must<{ status: string }>("GET", S("lost"));
        return status === "running";
      });
      const { id } = await world.must<{ id: string }>("POST", `${S("lost")}/backups`);
      await eventually("it is backed up", async () => {
        const { status } = await world.must<{ status: string }>("GET", `${S("lost")}/backups/${id}`);
        return status === "succeeded";
      });
      await world.must("DELETE", S("lost"), { confirmImpact: true });
      const { page, complaints } = await openConsole(stage, screen(`${world.A}/backups`), {
        bypassCSP: true,
      });
      const row = page.getByRole("row").filter({ has: page.getByText("lost", { exact: true }) });
      await row.waitFor();
      expect((await download(page)).content.subarray(0, 5).toString()).toBe(MAGIC[type!]);
      expect(await accessibilityFaults(page)).toEqual([]);
      const reader = await openConsole(stage, screen(`${world.A}/backups`), {
        user: await world.member("reader"),
      });
      await reader.page.getByText("lost", { exact: true }).waitFor();
      expect(await reader.page.getByRole("button", { name: /Bring back|Download|Delete/ }).count()).toBe(0);
      await reader.page.context().close();

      await row.getByRole("button", { name: "Bring back" }).click();
      const dialog = page.getByRole("dialog");
      await dialog.getByLabel("Name").fill("found");
      const [, environmentId] = /environments\/(env_\w+)/.exec(E) ?? [];
      await dialog.getByLabel("Environment").selectOption(environmentId!);
      await dialog.getByRole("button", { name: "Create" }).click();
      await page.waitForURL(/services\/found\/backups/);
      await eventually("it has the data", async () => {
        const { backups } = await world.must<{ backups?: { restore?: { status: string } } }>(
          "GET",
          S("found"),
        );
        return backups?.restore?.status === "succeeded";
      });
      await page.goBack();
      await row.getByRole("button", { name: "Delete" }).click();
      await dialog.getByRole("button", { name: "Delete" }).click();
      await row.waitFor({ state: "detached" });
      expect(complaints).toEqual([]);
      await page.context().close();
    },
  );

  test.skipIf(type === undefined)(
    "a backup is saved as a file, and a file becomes a backup, by keyboard and on a phone",
    async () => {
      const { world } = stage;
      const { E, S } = await world.environment();
      await serviceOf(world, E, "db", { type });
      await eventually("it runs", async () => {
        const { status } = await world.must<{ status: string }>("GET", S("db"));
        return status === "running";
      });
      await world.must("POST", `${S("db")}/backups`);
      const viewport = { width: 320, height: 800 };
      const { page, complaints } = await openConsole(stage, screen(`${S("db")}/backups`), {
        bypassCSP: true,
        viewport,
      });
      await page.getByText("succeeded").waitFor();
      const { name, content } = await download(page);
      expect(name).toMatch(/^db-bkp_\w+\.(dump|rdb)$/);
      expect(content.subarray(0, 5).toString()).toBe(MAGIC[type!]);

      const dialog = page.getByRole("dialog");
      const keys = async (...all: string[]) => {
        for (const key of all) await page.keyboard.press(key);
      };
      // As long as somebody listens, Chromium asks the test which file; a key that comes sooner than that is known asks nobody.
      page.on("filechooser", () => {});
      const choose = async (file: string, buffer: Buffer) => {
        await page.waitForFunction("document.activeElement.type === 'file'");
        const choosing = page.waitForEvent("filechooser");
        await keys("Space");
        await (await choosing).setFiles({ name: file, mimeType: "application/octet-stream", buffer });
      };
      await page.getByRole("button", { name: "Upload a dump" }).focus();
      await keys("Enter");
      await dialog.getByText("changes no data").waitFor();
      expect(await accessibilityFaults(page)).toEqual([]);
      expect(await page.evaluate("document.documentElement.scrollWidth - innerWidth")).toBe(0);
      await choose("old.sql", Buffer.from("--\n-- PostgreSQL database dump\n--\n"));
      await keys("Tab", "Enter");
      const alert = dialog.getByRole("alert");
      await alert
        .getByText(/Begin another upload/)
        .first()
        .waitFor();
      expect(await accessibilityFaults(page)).toEqual([]);
      // Of the refused one.
      expect(complaints.splice(0)).toEqual([expect.stringContaining("422")]);
      await keys("Shift+Tab");
      await choose(name, content);
      // What was refused is another file.
      await alert.waitFor({ state: "detached" });
      let pass = () => {};
      const held = new Promise<void>((resolve) => {
        pass = resolve;
      });
      await page.route("**/uploads/**", async (route) => {
        await held;
        await route.continue();
      });
      await keys("Tab", "Enter");
      await dialog.getByRole("progressbar", { name: "Progress" }).waitFor();
      pass();
      await dialog.waitFor({ state: "detached" });
      await page.getByRole("row").filter({ hasText: "uploaded" }).getByText("succeeded").waitFor();
      expect(complaints).toEqual([]);
      await page.context().close();
    },
  );

  test("what the API says of a file that is too large is shown where it was chosen, and closing ends an upload", async () => {
    const { world } = stage;
    const { E, S } = await world.environment();
    await serviceOf(world, E, "db", { type: "postgres" });
    const { page } = await openConsole(stage, screen(E), { bypassCSP: true });
    // As an installation answers that can back up.
    const service = await world.must<object>("GET", S("db"));
    const json = { ...service, capabilities: { backups: true } };
    await page.route(`**${S("db")}`, (route) => route.fulfill({ json }));
    await page.getByRole("link", { name: "db", exact: true }).first().click();
    await page.getByRole("link", { name: "Backups" }).click();
    await page.getByRole("button", { name: "Upload a dump" }).click();
    const dialog = page.getByRole("dialog");
    await dialog
      .getByLabel("Dump")
      .setInputFiles({ name: "db.dump", mimeType: "", buffer: Buffer.from("PGDMP") });
    const message = "A dump has at most 5 <b>GiB</b>.";
    const details = [{ path: "sizeBytes", reason: "upload_too_large", message }];
    const error = { code: "validation_failed", message: "Check it.", requestId: "req_1", details };
    await page.route("**/backups/uploads", (route) => route.fulfill({ status: 422, json: { error } }));
    const upload = dialog.getByRole("button", { name: "Upload" });
    await upload.click();
    await dialog.getByRole("alert").getByRole("listitem").getByText(message).waitFor();

    await page.unroute("**/backups/uploads");
    const target = { uploadUrl: `${world.origin}/v1/uploads/held`, contentType: "x/y", expiresInSeconds: 60 };
    await page.route("**/backups/uploads", (route) => route.fulfill({ json: target }));
    await page.route("**/uploads/held", () => {});
    const begun = page.waitForRequest((request) => request.method() === "PUT");
    const ended = page.waitForEvent("requestfailed");
    await upload.click();
    await begun;
    await page.keyboard.press("Escape");
    expect((await ended).method()).toBe("PUT");
    await dialog.waitFor({ state: "detached" });
    await page.context().close();
  });

  test("an addon that has an archive is restored and forked as of a moment, in the user's time zone", async () => {
    const { world } = stage;
    const { E, S } = await world.environment();
    const { id } = await serviceOf(world, E, "db", { type: "postgres" });
    const timezoneId = "Asia/Tokyo";
    const { page, complaints } = await openConsole(stage, screen(E), { bypassCSP: true, timezoneId });
    const now = Math.floor(Date.now() / MINUTE_MS) * MINUTE_MS + 7_000;
    const ago = (days: number) => new Date(now - days * 24 * 60 * MINUTE_MS);
    const inTokyo = (time: Date) =>
      new Date(time.getTime() + 9 * 60 * MINUTE_MS).toISOString().slice(0, "2027-01-31T09:41:07".length);
    const at = ago(1).toISOString();
    // As a cluster answers that archives what its addons write.
    const json = {
      ...(await world.must<object>("GET", S("db"))),
      capabilities: { backups: true, pointInTime: true },
      backups: { oldestRestorableAt: ago(2), archiveFailure: "The archive takes <b>nothing</b> new." },
    };
    const made = {
      id: "bkp_then",
      serviceId: id,
      status: "succeeded",
      trigger: "manual",
      startedAt: ago(0),
      at,
    };
    const sent: object[] = [];
    const answer = async (route: Route) => {
      const request = route.request();
      if (request.method() === "POST") sent.push(request.postDataJSON());
      else if (!request.url().endsWith("/services/db")) return route.fallback();
      return route.fulfill({ json });
    };
    for (const path of [S("db"), `${S("db")}/restore`, `${E}/services`])
      await page.route(`**${path}`, answer);
    await page.route(/\/backups\?/, (route) => route.fulfill({ json: { data: [made], page: {} } }));
    await page.getByRole("link", { name: "db", exact: true }).first().click();
    await page.getByRole("link", { name: "Backups" }).click();
    await page.getByText("The archive takes <b>nothing</b> new.").waitFor();
    await page.getByRole("row").filter({ hasText: "as of" }).waitFor();
    expect(await accessibilityFaults(page)).toEqual([]);

    const dialog = page.getByRole("dialog");
    await page.getByRole("button", { name: "Restore to a moment" }).click();
    await dialog.getByText(`In ${timezoneId}, from`).waitFor();
    expect(await accessibilityFaults(page)).toEqual([]);
    await dialog.getByLabel("Type db to confirm").fill("db");
    for (const outside of [ago(3), ago(-1)]) {
      await dialog.getByLabel("Moment").fill(inTokyo(outside));
      await dialog.getByRole("button", { name: "Restore" }).click();
    }
    expect(sent).toEqual([]);
    await dialog.getByLabel("Moment").fill(inTokyo(ago(1)));
    const utc = `${((ago(1).getUTCHours() + 11) % 12) + 1}${at.slice(13, 19)}`;
    await dialog.getByText(new RegExp(`In UTC it is .*, ${utc}`)).waitFor();
    await dialog.getByText("What was written since then is lost").waitFor();
    await dialog.getByRole("button", { name: "Restore" }).click();
    await dialog.waitFor({ state: "detached" });
    expect(sent).toEqual([{ at, confirmImpact: true }]);

    await page.getByRole("button", { name: "Fork from a moment" }).click();
    await dialog.getByLabel("Moment").fill(inTokyo(ago(1)));
    expect(await accessibilityFaults(page)).toEqual([]);
    await dialog.getByRole("button", { name: "Create" }).click();
    await dialog.waitFor({ state: "detached" });
    expect(sent.at(-1)).toEqual({ name: "db-2", type: "postgres", from: { service: id, at } });
    expect(complaints).toEqual([]);
    await page.context().close();
  });

  test("where addons cannot be backed up, the screen says why, as text, and offers nothing", async () => {
    const { world } = stage;
    const { E, S } = await world.environment();
    await serviceOf(world, E, "cache", { type: "redis" });
    const { page, complaints } = await openConsole(stage, screen(E), { bypassCSP: true });
    // As an installation that cannot back up answers.
    const service = await world.must<object>("GET", S("cache"));
    const capabilities = { backups: false, backupsReason: "There is no <b>pg_dump</b> here." };
    await page.route(`**${S("cache")}`, (route) => route.fulfill({ json: { ...service, capabilities } }));
    await page.getByRole("link", { name: "cache" }).first().click();
    await page.getByRole("link", { name: "Backups" }).click();
    await page.getByRole("heading", { name: "Addons are not backed up here" }).waitFor();
    await page.getByText("There is no <b>pg_dump</b> here.").waitFor();
    expect(await page.getByRole("button", { name: /Back up|Restore/ }).count()).toBe(0);
    expect(await accessibilityFaults(page)).toEqual([]);
    expect(complaints).toEqual([]);
    await page.context().close();
  });
});
