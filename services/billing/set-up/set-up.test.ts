import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { createLog } from "../../kit/log.ts";
import { nodeEnv } from "../../kit/testing/service-process.ts";
import { makePromo } from "../coupons/testing.ts";
import { seed } from "../pricing/seed.ts";
import { createProvider } from "../stripe/provider.ts";
import { startBilling, type TestBilling } from "../testing.ts";
import { ensureWebhookEndpoint } from "../webhook/endpoint.ts";
import { toFinding } from "./clock.ts";

const COMMAND = join(import.meta.dirname, "../check-main.ts");

let billing: TestBilling;
let origin: string;
beforeAll(async () => {
  billing = await startBilling();
  const [own] = (await billing.stripe.stripe.webhookEndpoints.list()).data;
  // The simulator's own endpoint has no version of the API, which one that Berth makes has.
  origin = new URL(own!.url).origin.replace("127.0.0.1", "localhost");
  const { STRIPE_SECRET_KEY: stripeKey, STRIPE_API_URL: stripeUrl } = billing.env;
  await ensureWebhookEndpoint(createProvider({ stripeKey, stripeUrl }, createLog("test", "silent")), origin);
});
afterAll(() => billing?.stop());
beforeEach(() => billing.stripe.faults.clear());

/** Runs the command as an operator does. */
async function check(args: string[] = ["--webhook", origin], env: Record<string, string> = {}) {
  const { STRIPE_SECRET_KEY, STRIPE_WEBHOOK_SECRETS, STRIPE_API_URL } = billing.env as Record<string, string>;
  const all = { STRIPE_SECRET_KEY, STRIPE_WEBHOOK_SECRETS, STRIPE_API_URL, ...env };
  const options = { env: { ...nodeEnv, ...all } as NodeJS.ProcessEnv };
  return promisify(execFile)(process.execPath, [COMMAND, ...args], options).then(
    ({ stdout }) => ({ code: 0, said: stdout }),
    (error) => ({ code: error.code as number, said: String(error.stderr) }),
  );
}

test("a complete set-up is proved, and what only the Dashboard shows is listed", async () => {
  const { code, said } = await check();
  expect(said).not.toContain("WRONG");
  expect(code).toBe(0);
  for (const text of [
    "ok     The key may do everything that billing does.",
    "ok     All that is sold exists, at the prices of the list.",
    "ok     The clock of this machine is right.",
    `ok     Stripe reports everything to ${origin}/webhooks/stripe.`,
    "ok     The installation takes webhooks with the signing secret.",
    "to see Failed payments: set four retries within 14 days",
  ])
    expect(said).toContain(text);
  const before = await billing.pool.query(
    "select count(*)::int as n from stripe_events where id like 'evt_berth%'",
  );
  expect(before.rows).toEqual([{ n: 0 }]);
});

test("each thing that is wrong is named, with what to do", async () => {
  const { stripe } = billing.stripe;
  billing.stripe.faults.add({ kind: "forbid", method: "POST", path: "/v1/coupons/*" });
  billing.stripe.faults.add({ kind: "forbid", method: "GET", path: "/v1/events" });
  billing.stripe.faults.add({ kind: "forbid", method: "POST", path: "/v1/subscription_schedules/*/release" });
  const coupon = await stripe.coupons.create({ percent_off: 10, duration: "once" });
  const open = await stripe.promotionCodes.create({
    promotion: { type: "coupon", coupon: coupon.id },
    code: "ANYTHING",
  });
  await makePromo(stripe, "PLANS");
  const [price] = (await stripe.prices.list({ lookup_keys: ["plan_pro_annual_2026-11"] })).data;
  await stripe.prices.update(price!.id, { active: false });
  const { code, said } = await check(undefined, { STRIPE_WEBHOOK_SECRETS: "whsec_other" });
  expect(code).toBe(1);
  const wrong = said.split("\n").filter((line) => line.startsWith("WRONG"));
  expect(wrong).toEqual([
    "WRONG  The key lacks a right: Events: read.",
    "WRONG  The key lacks a right: Subscription schedules: write.",
    "WRONG  The key lacks a right: Coupons: write.",
    "WRONG  The price plan_pro_annual_2026-11 is archived.",
    expect.stringContaining("WRONG  The promo code ANYTHING would also discount compute"),
    "WRONG  The installation refuses webhooks with the signing secret.",
  ]);
  await stripe.promotionCodes.update(open.id, { active: false });
  await stripe.prices.update(price!.id, { active: true });
  const away = await check(["--webhook", "http://127.0.0.1:1"]);
  expect(away.said).toContain(
    "WRONG  Stripe has no webhook endpoint for http://127.0.0.1:1/webhooks/stripe.",
  );
  expect(away.said).toContain("WRONG  http://127.0.0.1:1/webhooks/stripe answers nothing.");
});

test("without a key, or with one that Stripe does not know, the command says so, without the key", async () => {
  expect(await check([], { STRIPE_SECRET_KEY: "" })).toMatchObject({
    code: 1,
    said: expect.stringContaining("STRIPE_SECRET_KEY is not set"),
  });
  const unknown = await check([], { STRIPE_SECRET_KEY: "rk_test_abcdefghij" });
  expect(unknown.code).toBe(1);
  expect(unknown.said).not.toContain("abcdefghij");
});

test("a clock is right within a minute of Stripe's", () => {
  const at = Date.UTC(2027, 0, 1);
  const text = new Date(at).toUTCString();
  const state = (before: number, after = before) => toFinding(text, at + before, at + after).state;
  expect([state(0), state(60_000), state(-60_000), state(-90_000, 90_000)]).toEqual([
    "fine",
    "fine",
    "fine",
    "fine",
  ]);
  expect([state(61_000), state(-61_000)]).toEqual(["wrong", "wrong"]);
  expect(toFinding(undefined, at, at).state).toBe("wrong");
});

test("with taxes, it is proved that Stripe Tax can add them", async () => {
  const { stripe } = billing.stripe;
  const env = { STRIPE_TAX: "on" };
  const before = await check(undefined, env);
  expect(before.code).toBe(1);
  for (const text of [
    "WRONG  Stripe Tax is not active: head_office, defaults.tax_code is missing.",
    "WRONG  There is no tax registration, so no tax is added anywhere.",
    "WRONG  The price compute_monthly_2026-11 is not said to be without tax.",
  ])
    expect(before.said).toContain(text);
  await stripe.tax.settings.update({
    defaults: { tax_code: "txcd_10103001" },
    head_office: { address: { country: "DE" } },
  });
  const country_options = { de: { type: "standard" as const } };
  await stripe.tax.registrations.create({ country: "DE", country_options, active_from: "now" });
  const { STRIPE_SECRET_KEY: stripeKey, STRIPE_API_URL: stripeUrl } = billing.env;
  const taxing = createProvider({ stripeKey, stripeUrl, stripeTax: "on" }, createLog("test", "silent"));
  expect(await seed(taxing)).toContain("tax of compute_monthly_2026-11");
  expect(await seed(taxing)).toEqual([]);
  const after = await check(undefined, env);
  expect(after.said).not.toContain("WRONG");
  expect(after.said).toContain("ok     Taxes are added to all prices, for customers in DE.");
});

test("another installation on the account is pointed out, and what a named one sells is looked for by its name", async () => {
  const shared = await check();
  expect(shared.said).toMatch(/to see Stripe reports to http:\S+\/webhooks\/stripe too\. If that is another/);
  const named = await check(undefined, { STRIPE_INSTALLATION: "staging" });
  expect(named.code).toBe(1);
  expect(named.said).toContain("WRONG  The price plan_pro_monthly_2026-11_staging is missing.");
  expect(named.said).toContain("WRONG  The meter compute_usage_staging is missing.");
});
