import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { testPlatform } from "../../../gateway/testing/test-platform.ts";
import { TierChangedSchema } from "../../../proto/gen/berth/billing/v1/events_pb.ts";
import {
  UsageHeartbeatSchema,
  UsageStartedSchema,
  UsageStoppedSchema,
} from "../../../proto/gen/berth/deployer/v1/events_pb.ts";
import { startBilling, type TestBilling } from "../../../services/billing/testing.ts";
import { newId } from "../../../services/kit/ids.ts";
import { freePort } from "../../../services/kit/process/free-port.ts";
import { eventually } from "../../../services/kit/testing/testing.ts";
import { chromiumProgram, openBrowser } from "../../support/browser.ts";

let platform: Awaited<ReturnType<typeof testPlatform>>;
let billing: TestBilling;
let gateway: Awaited<ReturnType<typeof platform.gateway>>;
let browser: Browser;
beforeAll(async () => {
  if (!chromiumProgram) return;
  const port = await freePort();
  platform = await testPlatform();
  billing = await startBilling({
    NATS_URL: platform.nats.url,
    IDENTITY_URL: platform.gatewayEnv.IDENTITY_URL!,
    PUBLIC_ORIGIN: `http://127.0.0.1:${port}`,
  });
  gateway = await platform.gateway({ PORT: String(port), BILLING_URL: `http://127.0.0.1:${billing.port}` });
  // From here on, webhooks come through the gateway.
  const { stripe } = billing.stripe;
  const [endpoint] = (await stripe.webhookEndpoints.list()).data;
  await stripe.webhookEndpoints.update(endpoint!.id, { url: `${gateway.origin}/webhooks/stripe` });
  browser = await openBrowser();
});
afterAll(async () => {
  await browser?.close();
  await gateway?.stop();
  await billing?.stop();
  await platform?.stop();
});

if (!chromiumProgram) console.log("Skipped: a year that is bought and canceled. No Chromium on the PATH.");
const inBrowser = test.skipIf(!chromiumProgram);

/** What the account runs, as the deployer tells it on the simulator's clock. */
function service(accountId: string) {
  const about = {
    accountId,
    projectId: newId("prj"),
    environmentId: newId("env"),
    serviceId: newId("svc"),
    serviceType: "web",
    size: "large",
    replicas: 2,
    intervalId: newId("uin"),
  };
  let seq = 0;
  const at = () => timestampFromMs(billing.stripe.clock.now() * 1_000);
  return {
    id: about.serviceId,
    start: () =>
      billing.publish("deployer", UsageStartedSchema, accountId, { ...about, seq: seq++, at: at() }),
    stop: () =>
      billing.publish("deployer", UsageStoppedSchema, accountId, { ...about, seq: seq++, at: at() }),
    beat: () =>
      billing.publish("deployer", UsageHeartbeatSchema, accountId, { ...about, seq: seq++, at: at() }),
  };
}

inBrowser(
  "a free account saves a promo code, subscribes for a year on the provider's page, runs for a month, and cancels with a refund",
  async () => {
    const { call } = gateway;
    const [account] = (await call("GET", "/accounts")).body.data as { id: string }[];
    const A = `/accounts/${account!.id}`;
    const { stripe, clock } = billing.stripe;
    const read = async <T>(path: string) => (await call("GET", A + path)).body as T;

    expect((await call("GET", `${A}/subscription`)).body.error.code).toBe("subscription_not_found");
    expect(await read("/coupon")).toEqual({ pending: null });

    const coupon = await stripe.coupons.create({
      percent_off: 20,
      duration: "forever",
      name: "Launch",
      applies_to: { products: ["berth_plan_pro", "berth_seat_pro"] },
    });
    await stripe.promotionCodes.create({
      code: "LAUNCH20",
      promotion: { type: "coupon", coupon: coupon.id },
    });
    expect((await call("POST", `${A}/coupon`, { code: "launch20" })).status).toBe(204);
    expect(await read("/coupon")).toEqual({ pending: { code: "LAUNCH20", label: "Launch", percentOff: 20 } });

    const opened = await call("POST", `${A}/subscription`, { tierId: "pro", cadence: "annual" });
    expect(opened.status).toBe(200);
    const page = await browser.newPage();
    const complaints: string[] = [];
    page.on("console", (message) => complaints.push(message.text()));
    await page.goto(String(opened.body.checkoutUrl));
    await expect.poll(() => page.getByRole("button", { name: "Pay $160.00" }).count()).toBe(1);
    await page.getByRole("button", { name: "Pay $160.00" }).click();
    await page.getByRole("heading", { name: "Thank you" }).waitFor();
    expect(complaints).toEqual([]);

    type Subscription = {
      status: string;
      couponCode: string;
      items: { kind: string }[];
      invoices: { kind: string }[];
    };
    const subscription = await eventually("the subscription is active, with compute", async () => {
      const found = await read<Subscription>("/subscription");
      return found.items?.some(({ kind }) => kind === "compute") && found;
    });
    expect(subscription).toMatchObject({ status: "active", cadence: "annual", couponCode: "LAUNCH20" });
    expect(await read("/coupon")).toEqual({ pending: null });
    const tiers = async () =>
      (await billing.published(TierChangedSchema, account!.id)).map(({ tier }) => tier);
    await eventually("the plan is told", async () => (await tiers()).join() === "pro");

    type Usage = {
      periodStart: string;
      periodEnd: string;
      accruedUsd: number;
      services: { serviceId: string }[];
    };
    const usage = () => read<Usage>("/compute-usage");
    const { periodEnd } = await eventually("a period of compute begins with its item", async () => {
      const found = await usage();
      return Date.parse(found.periodStart) / 1_000 > clock.now() - 600 && found;
    });
    const end = Date.parse(periodEnd) / 1_000;
    const web = service(account!.id);
    await web.start();
    clock.advance(end - clock.now() - 600);
    await web.beat();
    await eventually("a month of usage has accrued", async () => {
      const { services, accruedUsd } = await usage();
      return services?.[0]?.serviceId === web.id && accruedUsd > 120;
    });
    clock.advance(600 + 46 * 60);
    await web.beat();
    await eventually("the month is closed", async () => {
      const { rowCount } = await billing.pool.query(
        "select from metered_periods where due_cents is not null",
      );
      return rowCount === 1;
    });
    clock.advance(2 * 3_600);
    await web.stop();
    type Invoice = { kind: string; status: string; totalUsd: number };
    const invoice = await eventually("the month's compute is on an invoice", async () => {
      const { invoices } = await read<{ invoices: Invoice[] }>("/subscription");
      return invoices.find(({ kind, status }) => kind === "compute" && status === "paid");
    });
    expect(invoice.totalUsd).toBeGreaterThan(100);

    const { asOf: _, ...preview } = await read<{ asOf: string }>("/subscription/cancel-preview");
    const refund = { amountUsd: 128, currency: "usd", estimatedArrivalDays: 10 };
    const nothing = { charges: [], credits: [], underReviewUsd: 0, warnings: [] };
    expect(preview).toEqual({
      accessUntil: "now",
      refund,
      refundUnderReview: false,
      ...nothing,
      netUsd: -128,
    });
    const { asOf: __, ...canceled } = (await call("DELETE", `${A}/subscription`)).body;
    expect(canceled).toEqual({ status: "canceled", ...preview });
    await eventually("the plan is free again", async () => (await tiers()).join() === "pro,free");
    expect((await call("GET", `${A}/subscription`)).body.error.code).toBe("subscription_not_found");
  },
);
