import { afterAll, beforeAll, expect, test } from "vitest";
import { settled } from "../../support/apps.ts";
import { exampleFiles } from "../../support/archives.ts";
import { type GitServer, startGitServer } from "../../support/servers/git-server.ts";
import { inChromium } from "../pages/chromium.ts";
import { openConsole, screen, serviceOf } from "./browser.ts";

let server: GitServer;
beforeAll(async () => {
  server = await startGitServer();
});
afterAll(() => server?.close());

inChromium("the console: a service", (stage) => {
  test("a branch is deployed, its build and its app's log are read, and it is rolled back, all live", async () => {
    const { world } = stage;
    server.create("shop", exampleFiles("node"));
    const { P, E, S } = await world.environment();
    const { page, complaints } = await openConsole(stage, screen(E));
    await page.getByRole("button", { name: "New service" }).click();
    const nameOf = async (path: string) => (await world.must<{ name: string }>("GET", path)).name;
    const place = `${await nameOf(P)} ${await nameOf(E)}`;
    await expect.poll(() => page.title()).toBe(`${place} – Berth`);
    await page.getByLabel("Name").fill("web");
    await page.getByLabel("What runs").selectOption("A git repository");
    await page.getByLabel("Git repository").fill(server.url("shop"));
    await page.getByRole("button", { name: "Create" }).click();
    await expect.poll(() => page.title()).toBe(`web – ${place} – Berth`);

    const row = page.getByRole("row").filter({ hasText: "v1" });
    await row.getByText("live").waitFor({ timeout: 120_000 });
    expect(await row.textContent()).toMatch(/main [0-9a-f]{8}/);
    const { displayName } = await world.must<{ displayName: string }>("GET", "/me");
    await row.getByRole("cell", { name: displayName, exact: true }).waitFor();
    await row.getByRole("link", { name: "Build log" }).click();
    await page
      .getByRole("region", { name: "Build log of version 1" })
      .getByText(/Detected/)
      .waitFor();
    await page.getByRole("link", { name: "Logs" }).click();
    const lines = page.getByRole("region", { name: "Log lines" });
    await lines
      .getByText(/listening|started|on port/i)
      .first()
      .waitFor();
    await page.getByLabel("Find in the lines").fill("no line has this");
    await lines.getByText("No line contains this.").waitFor();
    await page.getByLabel("Find in the lines").fill("");
    const download = page.waitForEvent("download");
    await page.getByRole("button", { name: "Download" }).click();
    expect((await download).suggestedFilename()).toBe("web.log");

    await page.getByRole("link", { name: "Settings" }).click();
    await page.getByLabel("Replicas").fill("2");
    await page.getByRole("button", { name: "Save" }).first().click();
    await page.getByText("Saved. It takes effect at once.").waitFor();
    await page.getByLabel("Path for the health check").fill("/");
    await page.getByLabel("Has a public address").uncheck();
    await page.getByRole("button", { name: "Save" }).last().click();
    await page.getByText("with the next deployment").waitFor();
    expect((await world.must<{ config: object }>("GET", S("web"))).config).toMatchObject({ public: false });
    await page.getByRole("link", { name: "Deployments" }).click();
    await page.getByRole("button", { name: "Deploy" }).click();
    await page.getByText("Settings that change").waitFor();
    await page.getByRole("definition").getByText("healthCheckPath").waitFor();
    await page.getByRole("dialog").getByRole("button", { name: "Deploy" }).click();
    await page.getByRole("row").filter({ hasText: "v2" }).getByText("live").waitFor({ timeout: 120_000 });
    await row.getByText("replaced").waitFor();

    await row.getByRole("button", { name: "Roll back" }).click();
    await page.getByRole("heading", { name: "Roll back to version 1" }).waitFor();
    await page.getByRole("definition").getByText("healthCheckPath").waitFor();
    await page.getByRole("dialog").getByRole("button", { name: "Roll back" }).click();
    await page.getByRole("row").filter({ hasText: "v3" }).getByText("live").waitFor({ timeout: 120_000 });
    expect(await settled(world, S("web"), 3)).toMatchObject({ status: "applied" });

    await page.getByRole("link", { name: "Settings" }).click();
    await page.getByText("It is running.").waitFor();
    await page.getByLabel("Type web to confirm").fill("web");
    await page.getByRole("button", { name: "Delete web" }).click();
    await page.getByRole("heading", { name: "Services and addons" }).waitFor();
    expect(complaints).toEqual([]);
    await page.context().close();
  });

  test("a cron service is created with its schedule, which is changed where its settings are", async () => {
    const { world } = stage;
    const { E, S } = await world.environment();
    const { page, complaints } = await openConsole(stage, screen(E));
    await page.getByRole("button", { name: "New service" }).click();
    await page.getByLabel("Name").fill("report");
    await page.getByLabel("Type").selectOption("Cron job");
    await page.getByLabel("What runs").selectOption("Decide later");
    await page.getByLabel("Schedule").fill("30 2 * * *");
    await page.getByLabel("Time zone").fill("Europe/Nowhere");
    await page.getByRole("button", { name: "Create" }).click();
    await page.getByText(/timeZone/).waitFor();
    await page.getByLabel("Time zone").fill("Europe/Berlin");
    await page.getByRole("button", { name: "Create" }).click();
    await page.getByRole("heading", { name: "report" }).waitFor();
    await page.getByText("Cron job").waitFor();
    // What it writes belongs to its runs.
    expect(await page.getByRole("link", { name: "Logs" }).count()).toBe(0);
    await page.getByRole("link", { name: "Settings" }).click();
    expect(await page.getByLabel("Schedule").inputValue()).toBe("30 2 * * *");
    expect(await page.getByLabel("Replicas").count()).toBe(0);
    await page.getByLabel("Schedule").fill("@daily");
    await page.getByRole("button", { name: "Save" }).last().click();
    await page.getByText("Saved. It takes effect at once.").waitFor();
    const config = { schedule: "@daily", timeZone: "Europe/Berlin" };
    expect(await world.must("GET", S("report"))).toMatchObject({ type: "cron", config });
    // Of the refused time zone.
    expect(complaints).toEqual([expect.stringContaining("422")]);
    await page.context().close();
  });

  test("a command is run beside a service: its output, its exit code and its end are seen; one is canceled", async () => {
    const { world } = stage;
    server.create("ledger", exampleFiles("node"));
    const { E, S } = await world.environment();
    const git = { repository: server.url("ledger"), branch: "main" };
    await serviceOf(world, E, "web", { source: { git } });
    const { page, complaints } = await openConsole(stage, screen(`${S("web")}/runs`));
    await page.getByRole("heading", { name: "No runs yet" }).waitFor();
    const begin = async (command: string) => {
      await page.getByRole("button", { name: "Run a command" }).click();
      await page.getByRole("textbox", { name: "Command" }).fill(command);
      await page.getByRole("dialog").getByRole("button", { name: "Run" }).click();
    };
    await begin("true");
    await page
      .getByRole("alert")
      .getByText(/not|no /)
      .waitFor();
    await page.keyboard.press("Escape");
    complaints.length = 0;

    await world.must("POST", `${S("web")}/deploy`, {});
    await settled(world, S("web"), 1);
    await begin("echo '<b>sown</b>'; exit 3");
    const output = page.getByRole("region", { name: "Output" });
    await output.getByText("<b>sown</b>", { exact: true }).waitFor();
    await page.locator(".status", { hasText: "failed" }).waitFor();
    await page.getByText("exit code 3").first().waitFor();
    await page.getByRole("link", { name: "All runs" }).click();

    await begin("sleep 600");
    // It writes nothing, and yet is seen to run.
    await page.locator(".status", { hasText: "running" }).nth(1).waitFor();
    await page.getByRole("button", { name: "Cancel sleep 600" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Cancel" }).click();
    await page.locator(".status", { hasText: "canceled" }).waitFor();
    await page.getByRole("dialog").waitFor({ state: "detached" });
    await page.getByRole("link", { name: "All runs" }).click();
    const rows = page.getByRole("row");
    await rows.filter({ hasText: "sleep 600" }).getByText("canceled").waitFor();
    await rows.filter({ hasText: "sown" }).getByText("exit code 3").waitFor();
    expect(complaints).toEqual([]);
    await page.context().close();

    const reader = await openConsole(stage, screen(`${S("web")}/runs`), {
      user: await world.member("reader"),
    });
    await reader.page.getByRole("link", { name: "sleep 600" }).click();
    await reader.page.locator(".status", { hasText: "canceled" }).waitFor();
    await reader.page.getByRole("link", { name: "All runs" }).click();
    await reader.page.getByRole("row").filter({ hasText: "sown" }).waitFor();
    expect(await reader.page.getByRole("button", { name: "Run a command" }).count()).toBe(0);
    expect(reader.complaints).toEqual([]);
    await reader.page.context().close();
  });

  test("why a deployment failed is said in the words of the API", async () => {
    const { world } = stage;
    const { E, S } = await world.environment();
    const git = { repository: server.url("nowhere"), branch: "main" };
    await serviceOf(world, E, "web", { source: { git } });
    await world.must("POST", `${S("web")}/deploy`, {});
    const { errors } = await settled(world, S("web"), 1);
    const { page, complaints } = await openConsole(stage, screen(S("web")));
    const row = page.getByRole("row").filter({ hasText: "v1" });
    await row.getByText("failed").waitFor();
    await row.getByText(errors[0]!.message).waitFor();
    await row.getByRole("link", { name: "v1", exact: true }).click();
    await page.getByRole("heading", { name: "Why it failed" }).waitFor();
    await page.getByRole("listitem").filter({ hasText: errors[0]!.message }).waitFor();
    expect(complaints).toEqual([]);
    await page.context().close();
  });

  test("a reader sees everything and is offered nothing that is not theirs to do", async () => {
    const { world } = stage;
    const { E, S } = await world.environment();
    await serviceOf(world, E, "web");
    const reader = await world.member("reader");
    const { page, complaints } = await openConsole(stage, screen(S("web")), { user: reader });
    await page.getByRole("heading", { name: "Never deployed" }).waitFor();
    expect(await page.getByRole("button", { name: "Deploy" }).count()).toBe(0);
    await page.getByRole("link", { name: "Settings" }).click();
    await page.getByLabel("Replicas").waitFor();
    expect(await page.getByLabel("Replicas").isDisabled()).toBe(true);
    expect(await page.getByRole("button", { name: /Delete/ }).count()).toBe(0);
    expect(complaints).toEqual([]);
    await page.context().close();
  });
});
