import { readFile } from "node:fs/promises";
import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { createPool } from "../../../services/kit/postgres/db.ts";
import { archiveOf, deployArchive, settled } from "../../support/apps.ts";
import { accessibilityFaults } from "../../support/browser.ts";
import { inChromium, type Stage } from "../pages/chromium.ts";
import { openConsole, screen, serviceOf } from "./browser.ts";
import { openShop, subscribe } from "./shop.ts";

const dialog = (page: Page) => page.getByRole("dialog");
const press = (page: Page, name: string | RegExp) => page.getByRole("button", { name }).click();
const fact = (page: Page, name: string) =>
  page.locator("dl.facts dt", { hasText: name }).locator("xpath=following-sibling::dd[1]");

/** What a page complains about besides what it asks of the payment provider, to which it leads. */
const own = (complaints: string[], origin: string) =>
  complaints.filter((complaint) => !/^https?:/.test(complaint) || complaint.startsWith(origin));

inChromium(
  "the console: billing with a payment provider",
  (stage) => {
    test("an owner sees the price, pays, changes the plan, cancels it, keeps it, and another sees it without reloading", async () => {
      const { world } = stage;
      const { page, complaints } = await openConsole(stage, screen(`${world.A}/subscription`));
      const user = await world.member("owner");
      const { page: other } = await openConsole(stage, screen(`${world.A}/subscription`), { user });
      await other.getByRole("heading", { name: "The account is on the free plan" }).waitFor();
      await page.getByRole("heading", { name: "The account is on the free plan" }).waitFor();
      const cost = page.getByRole("table", { name: "What the plan costs" });
      await cost.getByText("$20.00").first().waitFor();
      await page.getByLabel("Code").fill("no-such-code");
      await press(page, "Redeem");
      await page.getByRole("alert").waitFor();
      await page.getByLabel("Code").fill("welcome20");
      await press(page, "Redeem");
      await page.getByText("is used with the next subscription").waitFor();
      await cost.getByRole("row", { name: "Charged now" }).getByText("$16.00").waitFor();

      await press(page, "Go to the payment");
      await press(page, "Pay $16.00");
      // The subscription is there when the payment is confirmed: nothing is pressed.
      await page.getByText("The payment provider has received your order").waitFor();
      await fact(page, "Plan").getByText("pro, paid monthly").waitFor();
      expect(page.url()).toContain(`${world.origin}${screen(world.A)}/subscription?returned=subscribed`);
      await fact(page, "Payment method").getByText("visa, ending in 4242").waitFor();
      await page.getByText("reduces the next invoices").waitFor();

      await press(page, "Change the plan");
      await dialog(page).getByText("This is the plan already").waitFor();
      await dialog(page).getByLabel("Payment").selectOption("annual");
      await dialog(page).getByText("Nothing is charged now.").waitFor();
      await dialog(page).getByLabel("Payment").selectOption("monthly");
      await dialog(page).getByLabel("Plan").selectOption("team");
      await press(page, /^Change the plan and pay \$6/);
      await dialog(page).waitFor({ state: "detached" });
      await fact(page, "Plan").getByText("team, paid monthly").waitFor();
      await fact(other, "Plan").getByText("team, paid monthly").waitFor();

      await press(page, "Cancel the plan");
      await dialog(page).getByText("Nothing is refunded.").waitFor();
      await dialog(page).getByRole("button", { name: "Cancel the plan" }).click();
      await page.getByRole("dialog", { name: "The plan is canceled" }).waitFor();
      await press(page, "Close");
      await page.getByText("It is canceled, and will not be charged again.").waitFor();
      await press(page, "Keep the plan");
      await dialog(page).getByRole("button", { name: "Keep the plan" }).click();
      await fact(page, "Next payment").waitFor();

      await page.getByRole("link", { name: "Invoices" }).click();
      const invoice = page.getByRole("row").filter({ hasText: "$16.00" });
      await invoice.getByText("paid").waitFor();
      expect(await invoice.getByRole("link", { name: "PDF" }).getAttribute("href")).toContain(
        stripeOf(stage).url,
      );
      await page.getByRole("link", { name: "Plan", exact: true }).click();
      await press(page, "Card and address");
      await page.waitForURL(`${stripeOf(stage).url}/**`);
      expect(own(complaints, world.origin).filter((complaint) => !/404|422/.test(complaint))).toEqual([]);
      await page.context().close();
    });

    test("what was ordered is not offered again before its payment is confirmed", async () => {
      const { world } = stage;
      const { id } = await world.must<{ id: string }>("POST", "/accounts", { handle: `paid-${Date.now()}` });
      const { page, complaints } = await openConsole(
        stage,
        screen(`/accounts/${id}/subscription?returned=subscribed`),
      );
      await page.getByRole("button", { name: "Look again" }).waitFor();
      expect(await page.getByRole("button", { name: "Go to the payment" }).count()).toBe(0);
      expect(complaints.filter((complaint) => !/404/.test(complaint))).toEqual([]);
      await page.getByRole("link", { name: "Choose a plan" }).click();
      await page.getByRole("button", { name: "Go to the payment" }).waitFor();
      await page.context().close();
    });

    test("a year that is canceled says what is refunded, before and after it has ended", async () => {
      const { world } = stage;
      const handle = `year-${Date.now()}`;
      const { id } = await world.must<{ id: string }>("POST", "/accounts", { handle });
      await subscribe(world, `/accounts/${id}`, "annual");
      const { page, complaints } = await openConsole(stage, screen(`/accounts/${id}/subscription`));
      await fact(page, "Plan").getByText("pro, paid yearly").waitFor();
      await press(page, "Cancel the plan");
      const says = "A refund of $180.00 waits for a decision by the operator.";
      await dialog(page).getByText(says).waitFor();
      await dialog(page).getByRole("button", { name: "Cancel the plan" }).click();
      await page.getByRole("dialog", { name: "The plan is canceled" }).getByText(says).waitFor();
      await press(page, "Close");
      await page.getByRole("heading", { name: "The account is on the free plan" }).waitFor();
      expect(complaints.filter((complaint) => !/404/.test(complaint))).toEqual([]);
      await page.context().close();
    });

    test("a preview that is no longer true is read again, and nothing is charged before the new one was seen", async () => {
      const { world } = stage;
      const handle = `outdated-${Date.now()}`;
      const { id } = await world.must<{ id: string }>("POST", "/accounts", { handle });
      const account = `/accounts/${id}`;
      await subscribe(world, account);
      const { page, complaints } = await openConsole(stage, screen(`${account}/subscription`));
      await press(page, "Change the plan");
      await dialog(page).getByLabel("Plan").selectOption("team");
      const pay = page.getByRole("button", { name: /^Change the plan and pay \$/ });
      const seen = await pay.textContent();
      // Somebody else makes it cheaper meanwhile.
      await world.must("POST", `${account}/coupon`, { code: "welcome20" });
      await pay.click();
      await dialog(page).getByText("The preview is no longer true").waitFor();
      await expect.poll(() => pay.textContent()).not.toBe(seen);
      const { items } = await world.must<{ items: { ref: string }[] }>("GET", `${account}/subscription`);
      expect(items.map(({ ref }) => ref)).toContain("pro");
      await pay.click();
      await dialog(page).waitFor({ state: "detached" });
      await fact(page, "Plan").getByText("team, paid monthly").waitFor();
      expect(complaints.filter((complaint) => !/409/.test(complaint))).toEqual([]);
      await page.context().close();
    });

    test("what compute costs is explained by day and by service, and limited; a closed month is a table to save", async () => {
      const { world } = stage;
      const { name, E, S } = await world.environment();
      await serviceOf(world, E, "web");
      await deployArchive(world, S("web"), await archiveOf("node"));
      await settled(world, S("web"), 1);
      // Its first second is over when there is a line of it.
      const lines = () => world.must<{ data: unknown[] }>("GET", `${world.A}/compute-usage/lines`);
      await expect.poll(async () => (await lines()).data.length).toBeGreaterThan(0);
      await closeMonth(stage);
      const { page, complaints } = await openConsole(stage, screen(`${world.A}/compute-usage`));
      const service = page
        .getByRole("table", { name: "By service" })
        .getByRole("row")
        .filter({ hasText: "web" });
      await service.getByText(name).waitFor();
      await page.getByRole("img", { name: /Price of compute on each of \d+ days/ }).waitFor();
      await page.getByText("As a table").click();
      const days = page.getByRole("table", { name: "By day" });
      await days.getByRole("columnheader", { name: `${name} / web` }).waitFor();
      expect(await days.getByRole("row").count()).toBeGreaterThan(27);
      await page.getByText("Time spans behind it").click();
      const span = page.getByRole("table", { name: "Time spans behind it" }).getByRole("row");
      await span.filter({ hasText: "1 × nano" }).getByText("$0.00000225", { exact: true }).first().waitFor();
      await page.getByText("one nano of type web is free, here web").waitFor();

      await page.getByLabel("At most, in dollars").fill("25.5");
      await press(page, "Save");
      await page.getByText("$0.00 of $25.50 are spent in this period.").waitFor();
      await page.getByLabel("At most, in dollars").fill("");
      await press(page, "Save");
      await page.getByText("There is no limit to what compute may cost.").waitFor();
      expect(await world.must("GET", `${world.A}/spend-limit`)).not.toHaveProperty("limitUsd");

      await page.getByRole("link", { name: "Statements" }).click();
      const [saved] = await Promise.all([page.waitForEvent("download"), press(page, "CSV 2026-01")]);
      expect(saved.suggestedFilename()).toMatch(/-2026-01\.csv$/);
      const answer = await fetch(`${world.baseUrl}${world.A}/statements/2026-01`, {
        headers: { authorization: `Bearer ${world.ownerToken}`, accept: "text/csv" },
      });
      expect(await readFile(await saved.path(), "utf8")).toBe(await answer.text());
      await page.getByRole("link", { name: "2026-01" }).click();
      await page.getByRole("row").filter({ hasText: "shop / closed" }).getByText("$1.50").waitFor();
      await page.getByRole("row").filter({ hasText: "Charged" }).getByText("$0.00").waitFor();
      expect(complaints).toEqual([]);
      await page.context().close();
    });

    test("who is no owner sees the plan and its limits, and asks for nothing that would be refused", async () => {
      const { world } = stage;
      const user = await world.member("editor");
      const { page, complaints } = await openConsole(stage, screen(world.A), { user });
      await page.getByRole("link", { name: "Billing" }).click();
      await page.getByRole("heading", { name: "Only owners see billing" }).waitFor();
      await page.getByText("Versions that are kept").waitFor();
      for (const below of ["compute-usage", "statements", "statements/2026-01", "invoices"]) {
        await page.goto(world.origin + screen(`${world.A}/${below}`));
        await page.getByRole("heading", { name: "Only owners see billing" }).waitFor();
      }
      expect(complaints).toEqual([]);
      await page.context().close();
    });
  },
  openShop,
);

inChromium(
  "the console: a payment that fails",
  (stage) => {
    test("the plan says that a renewal was not paid, the open invoice is paid, and the plan says no more of it", async () => {
      const { world } = stage;
      // Its bank wants each payment confirmed.
      await subscribe(world, world.A, "monthly", "4000 0027 6000 3184");
      const { page, complaints } = await openConsole(stage, screen(`${world.A}/subscription`), {
        bypassCSP: true,
      });
      await fact(page, "Plan").getByText("pro, paid monthly").waitFor();
      const { stripe, clock } = stripeOf(stage);
      const [subscription] = (await stripe.subscriptions.list()).data;
      clock.advance(subscription!.items.data[0]!.current_period_end + 86_400 - clock.now());
      // What the provider reports is seen without reloading.
      const due = page.getByText("A payment failed, and is tried again.");
      await due.waitFor();
      expect(await accessibilityFaults(page)).toEqual([]);
      await page.getByRole("link", { name: "Invoices" }).click();
      const open = page.getByRole("row").filter({ has: page.locator(".status", { hasText: "open" }) });
      await open.getByText("$20.00").waitFor();
      expect(await accessibilityFaults(page)).toEqual([]);
      const hosted = await open.getByRole("link", { name: "Pay" }).getAttribute("href");
      expect(hosted).toContain(stripeOf(stage).url);
      await fetch(hosted!, { method: "POST" });
      await open.waitFor({ state: "detached" });
      await page.getByRole("link", { name: "Plan", exact: true }).click();
      await fact(page, "Plan").getByText("pro, paid monthly").waitFor();
      await due.waitFor({ state: "detached" });
      expect(complaints).toEqual([]);
      await page.context().close();
    });
  },
  openShop,
);

inChromium("the console: billing without a payment provider", (stage) => {
  test("that nothing can be bought is said in the API's words, and what runs is shown all the same", async () => {
    const { world } = stage;
    const { page } = await openConsole(stage, screen(`${world.A}/subscription`));
    await page.getByRole("heading", { name: "The account is on the enterprise plan" }).waitFor();
    await page.getByText("This installation has no payment provider, so nothing can be bought.").waitFor();
    await page.getByRole("link", { name: "Compute" }).click();
    await page.getByRole("table", { name: "What compute costs so far" }).getByText("$0.00").first().waitFor();
    await page.context().close();
  });
});

const stripeOf = ({ world }: Stage) => (world as Awaited<ReturnType<typeof openShop>>).stripe;

/** Has a month behind it that nobody could wait for. */
async function closeMonth({ world }: Stage): Promise<void> {
  const pool = createPool(world.database.url("billing"));
  const names = { serviceName: "closed", projectName: "shop" };
  const line = {
    ...names,
    serviceId: "svc_closed",
    type: "web",
    accrued: "2000000000",
    allowance: "500000000",
    cents: "150",
  };
  await pool.query(
    `insert into period_statements (account_id, started_at, ended_at, tier, billed, accrued, allowance, adjustment,
       due_cents, lines, frozen_at, inputs)
     values ($1, '2026-01-01', '2026-02-01', 'free', false, 2000000000, 500000000, 0, 150, $2, '2026-02-01', '')`,
    [world.accountId, JSON.stringify([line])],
  );
  await pool.end();
}
