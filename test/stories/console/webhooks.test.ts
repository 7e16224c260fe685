import { afterAll, beforeAll, expect, test } from "vitest";
import { type Receiver, startReceiver } from "../../../services/notifications/webhooks/testing.ts";
import { startWorld } from "../../support/world.ts";
import { inChromium } from "../pages/chromium.ts";
import { openConsole, screen } from "./browser.ts";

let receiver: Receiver;
beforeAll(async () => {
  receiver = await startReceiver();
});
afterAll(() => receiver?.stop());

inChromium(
  "the console: webhooks",
  (stage) => {
    test("a webhook is made with a secret that is shown once, tested, sent again, paused, and deleted", async () => {
      const { world } = stage;
      const { page, complaints } = await openConsole(stage, screen(world.A));
      await page.getByRole("link", { name: "Webhooks" }).click();
      await page.getByRole("heading", { name: "No webhooks yet" }).waitFor();
      const press = (name: string) => page.getByRole("button", { name }).first().click();
      const confirm = (name: string) => page.getByRole("dialog").getByRole("button", { name }).click();
      await press("New webhook");
      await page.getByLabel("Address").fill(`${receiver.base}/hook`);
      await page.getByLabel("Events").fill("deploy.none");
      await press("Create");
      await page.getByRole("alert").getByText("events").first().waitFor();
      await page.getByLabel("Events").fill("deploy.*, member.joined");
      await press("Create");
      const secret = await page.getByRole("textbox", { name: "Secret" }).inputValue();
      expect(secret).toMatch(/^whsec_/);
      await page.keyboard.press("Escape");
      await page.getByRole("link", { name: `${receiver.base}/hook` }).click();
      await page.getByText("deploy.*, member.joined").waitFor();
      expect(await page.content()).not.toContain(secret);

      await press("Edit");
      const dialog = page.getByRole("dialog");
      expect(await dialog.getByLabel("Events").inputValue()).toBe("deploy.*, member.joined");
      const refusedFor = async (label: string, value: string, path: string) => {
        const before = await dialog.getByLabel(label).inputValue();
        await dialog.getByLabel(label).fill(value);
        await confirm("Save");
        await dialog.getByRole("alert").getByText(path).first().waitFor();
        await dialog.getByLabel(label).fill(before);
      };
      await refusedFor("Address", "ftp://receiver.example.com/", "url");
      await refusedFor("Events", "deploy.none", "events");
      // An empty list would change nothing, and say so nowhere.
      await dialog.getByLabel("Events").fill(" , ");
      await confirm("Save");
      await dialog.locator("input[name=events]:invalid").waitFor();
      await dialog.getByLabel("Address").fill(`${receiver.base}/moved?name=<b>x</b>`);
      await dialog.getByLabel("Events").fill("backup.*");
      await dialog.getByLabel("Description").fill("<i>ops</i>");
      await confirm("Save");
      await page.getByRole("heading", { name: "<i>ops</i>" }).waitFor();
      await page.getByRole("definition").getByText("backup.*").waitFor();
      const { data } = await world.must<{ data: object[] }>("GET", `${world.A}/webhooks`);
      const changed = { description: "<i>ops</i>", events: ["backup.*"], enabled: true };
      expect(data).toMatchObject([{ url: expect.stringContaining("/moved?name="), ...changed }]);
      await press("Edit");
      await dialog.getByLabel("Address").fill(`${receiver.base}/hook`);
      await confirm("Save");
      await dialog.waitFor({ state: "detached" });

      await press("Send a test");
      await receiver.arrived("/hook");
      const row = page.getByRole("row").filter({ hasText: "webhook.test" });
      await expect
        .poll(async () => {
          await press("Look again");
          return row.textContent();
        })
        .toContain("status 204");
      await row.getByRole("button", { name: "Body" }).click();
      await page.getByRole("dialog").getByText('"type":"webhook.test"').waitFor();
      await page.keyboard.press("Escape");
      await row.getByRole("button", { name: "Send again" }).click();
      await receiver.arrived("/hook", 2);

      await press("Replace the secret");
      await confirm("Replace the secret");
      const next = await page.getByRole("textbox", { name: "Secret" }).inputValue();
      expect([next.startsWith("whsec_"), next === secret]).toEqual([true, false]);
      await page.keyboard.press("Escape");
      await page.getByRole("dialog").waitFor({ state: "detached" });
      expect(await page.content()).not.toContain(next);

      await press("Pause");
      await page.getByText("an owner paused it").waitFor();
      await press("Send a test");
      await page.getByRole("alert").waitFor();
      await press("Resume");
      await page.getByText("an owner paused it").waitFor({ state: "detached" });
      await press("Delete");
      await confirm("Delete");
      await page.getByRole("heading", { name: "No webhooks yet" }).waitFor();
      expect(complaints.filter((complaint) => !/409|422/.test(complaint))).toEqual([]);
      await page.context().close();
    });

    test("who is no owner is told so, and asks for nothing that would be refused", async () => {
      const { world } = stage;
      const user = await world.member("editor");
      const { page, complaints } = await openConsole(stage, screen(`${world.A}/webhooks`), { user });
      await page.getByRole("heading", { name: "Only owners see webhooks" }).waitFor();
      expect(await page.getByRole("link", { name: "Webhooks" }).count()).toBe(0);
      expect(complaints).toEqual([]);
      await page.context().close();
    });
  },
  () => startWorld({ WEBHOOKS_PRIVATE: "on" }),
);
