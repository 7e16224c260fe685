import { afterAll, beforeAll, expect, test } from "vitest";
import { testPlatform } from "../../../gateway/testing/test-platform.ts";
import { createVisitor } from "../../../gateway/testing/visitor.ts";
import { startBilling, type TestBilling } from "../../../services/billing/testing.ts";
import { newId } from "../../../services/kit/ids.ts";
import { freePort } from "../../../services/kit/process/free-port.ts";
import { eventually } from "../../../services/kit/testing/testing.ts";
import { bringIn } from "../../support/door.ts";

let platform: Awaited<ReturnType<typeof testPlatform>>;
let billing: TestBilling;
let gateway: Awaited<ReturnType<typeof platform.gateway>>;
beforeAll(async () => {
  const port = await freePort();
  const env = { DEFAULT_TIER: "free", BOOTSTRAP_OWNER_PASSWORD: OWNER.password };
  platform = await testPlatform({}, undefined, { env });
  billing = await startBilling({
    NATS_URL: platform.nats.url,
    IDENTITY_URL: platform.gatewayEnv.IDENTITY_URL!,
    PUBLIC_ORIGIN: `http://127.0.0.1:${port}`,
  });
  gateway = await platform.gateway({ PORT: String(port), BILLING_URL: `http://127.0.0.1:${billing.port}` });
  const { stripe } = billing.stripe;
  const [endpoint] = (await stripe.webhookEndpoints.list()).data;
  await stripe.webhookEndpoints.update(endpoint!.id, { url: `${gateway.origin}/webhooks/stripe` });
});
afterAll(async () => {
  await gateway?.stop();
  await billing?.stop();
  await platform?.stop();
});

const OWNER = { email: "owner@example.com", password: "the owner's own words" };

/** The texts of a page, without its markup. */
const textOf = (page: string) => page.replaceAll(/<[^>]*>/g, " ").replaceAll(/\s+/g, " ");

test("an owner subscribes, reads what is charged, opens an invoice and cancels, all on pages that only owners see", async () => {
  const { body } = await gateway.call("GET", "/accounts");
  const accountId = (body.data as { id: string }[])[0]!.id;
  const { go, signIn } = createVisitor(() => gateway.origin);
  const page = `/billing/${accountId}`;
  expect((await go("GET", page)).location).toMatch(/^\/signin\?/);
  await signIn(OWNER);
  expect((await go("GET", "/profile")).text).toContain(`href="${page}"`);
  const free = await go("GET", page);
  expect(textOf(free.text)).toContain("The account is on the free plan. Nothing is charged.");
  expect(textOf((await go("GET", `${page}/cancel`)).text)).toContain("There is nothing to cancel");

  await go("GET", `${page}/subscribe`);
  const refused = await go("POST", `${page}/subscribe`, {
    fields: { account_id: accountId, tier: "gold", cadence: "monthly" },
  });
  expect([refused.status, textOf(refused.text).includes("tierId must be pro or team")]).toEqual([422, true]);
  const ordered = await go("POST", `${page}/subscribe`, {
    fields: { account_id: accountId, tier: "pro", cadence: "monthly" },
  });
  const checkoutUrl = /class="button" href="([^"]+)"/.exec(ordered.text)![1]!;
  await billing.pay(checkoutUrl);
  const paid = await eventually("the plan is shown", async () => {
    const { text } = await go("GET", page);
    return text.includes("Next payment") && text.includes("PDF") && textOf(text);
  });
  expect(paid).toMatch(
    /Plan pro Price \$20\.00 a month, and compute monthly Next payment \d+ \w+ \d{4} Payment method visa, ending in 4242/,
  );
  const { body: listed } = await gateway.call("GET", `/accounts/${accountId}/invoices`);
  const [invoice] = listed.data as { id: string; number: string; pdfUrl: string }[];
  expect(paid).toContain(invoice!.number);
  expect((await go("GET", `${page}/invoices/${invoice!.id}/pdf`)).location).toBe(invoice!.pdfUrl);
  expect((await go("GET", `${page}/invoices/in_none/pdf`)).status).toBe(404);
  expect((await go("GET", `${page}/portal`)).location).toContain(billing.stripe.url);

  const team = `${page}/change?plan=${encodeURIComponent("team, paid monthly")}`;
  expect((await go("GET", `${page}/change`)).text).toContain("pro, paid monthly: the present plan");
  const { text: cost } = await go("GET", team);
  expect(textOf(cost)).toMatch(/It begins immediately\. \$(?:80\.00|79\.9\d) are charged now\./);
  expect(textOf(cost)).toMatch(/The next payment for plan and members is \$100\.00 on \d+ \w+ \d{4}/);
  const fields = Object.fromEntries(
    [...cost.matchAll(/name="(account_id|tier|cadence|as_of|total)" value="([^"]*)"/g)].map(
      ([, name, value]) => [name, value],
    ),
  );
  const stale = await go("POST", `${page}/change`, { fields: { ...fields, total: "1" } });
  expect([stale.status, textOf(stale.text).includes("The preview is no longer true")]).toEqual([409, true]);
  const changed = await go("POST", `${page}/change`, { fields });
  expect(changed.location).toBe(`${page}?done=changed`);
  expect(textOf((await go("GET", page)).text)).toContain("Plan team Price $100.00 a month");
  const back = await go("GET", `${page}/change?plan=${encodeURIComponent("pro, paid monthly")}`);
  expect(textOf(back.text)).toContain("Nothing is charged now");
  await go("POST", `${page}/change`, { fields: { ...fields, tier: "pro", as_of: "", total: "0" } });
  expect(textOf((await go("GET", page)).text)).toMatch(
    /Changes \d+ \w+ \d{4} : to the pro plan, paid monthly/,
  );

  const asked = await go("GET", `${page}/cancel`);
  expect(textOf(asked.text)).toMatch(
    /The plan ends on \d+ \w+ \d{4} \. After that the account is on the free plan/,
  );
  expect(textOf(asked.text)).toContain("Nothing is refunded.");
  const canceled = await go("POST", `${page}/cancel`, { fields: { account_id: accountId } });
  expect(canceled.location).toBe(`${page}?done=canceled`);
  const shown = await eventually("the end is shown", async () => {
    const { text } = await go("GET", canceled.location!);
    return text.includes("it is canceled and will not be charged again") && textOf(text);
  });
  expect(shown).toContain("The plan is canceled.");
  expect(textOf((await go("GET", `${page}/resume`)).text)).toContain(
    "The plan continues, and is charged again",
  );
  const resumed = await go("POST", `${page}/resume`, { fields: { account_id: accountId } });
  expect(textOf((await go("GET", resumed.location!)).text)).toContain("The cancellation is undone.");
  const last = await go("POST", `${page}/cancel`, { fields: { account_id: accountId } });
  expect(last.location).toBe(`${page}?done=canceled`);

  const recorded = async () => {
    const records = await gateway.call("GET", `/accounts/${accountId}/audit-events?limit=100`);
    return (records.body.data as { action: string; actor: { kind: string; id: string } }[])
      .filter(({ action }) => /^(?:subscription|billing_portal|plan)\./.test(action))
      .map(({ action, actor }) => `${action} ${actor.kind}`)
      .toReversed();
  };
  // Records arrive after the answers to what they record.
  await expect
    .poll(recorded)
    .toEqual([
      "subscription.checkout user",
      "plan.change service",
      "billing_portal.open user",
      "subscription.change user",
      "plan.change service",
      "subscription.schedule_change user",
      "subscription.cancel user",
      "subscription.undo_cancel user",
      "subscription.cancel user",
    ]);
  await refusedTo(accountId);
});

/** What somebody who is no owner of the account finds on its billing pages. */
async function refusedTo(accountId: string): Promise<void> {
  const reader = await bringIn(gateway.call, `/accounts/${accountId}`, "reader");
  const { go, signIn } = createVisitor(() => gateway.origin);
  await signIn(reader);
  expect((await go("GET", "/profile")).text).not.toContain("/billing/");
  for (const account of [accountId, newId("acc"), "%3Cscript%3E"])
    for (const below of ["", "/portal", "/cancel", "/change", "/resume", "/invoices/in_1/pdf"]) {
      const { status, text } = await go("GET", `/billing/${account}${below}`);
      expect([below, status, text.includes("<script")]).toEqual([below, 403, false]);
    }
  await go("GET", `/billing/${accountId}/subscribe`);
  const fields = { account_id: accountId, tier: "pro", cadence: "monthly" };
  expect((await go("POST", `/billing/${accountId}/subscribe`, { fields })).status).toBe(403);
  expect((await go("POST", `/billing/${accountId}/cancel`, { fields })).status).toBe(403);
}
