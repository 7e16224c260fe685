import { afterAll, beforeAll, describe, test } from "vitest";
import { runFor } from "../../services/billing/metering/testing.ts";
import { startBilling, type TestBilling } from "../../services/billing/testing.ts";
import { webhookScene } from "../../services/billing/webhook/testing.ts";
import { metricsText } from "../../services/kit/telemetry.ts";
import { eventually } from "../../services/kit/testing/testing.ts";
import { expectAlert, metricIn, promtool, scraper } from "./evaluate.ts";

const MINUTE = 60;

describe.skipIf(!promtool)("an operator is alerted", () => {
  let billing: TestBilling;
  beforeAll(async () => {
    billing = await startBilling();
  });
  afterAll(() => billing?.stop());

  test("that an invoice asks for other compute than was used, as somebody reports more by hand", async () => {
    const { clock, stripe } = billing.stripe;
    const goTo = (at: number) => clock.advance(Math.max(0, at - clock.now()));
    const accountId = await webhookScene(billing).paid("monthly");
    const period = (what: string, where: string) =>
      eventually(what, async () => {
        const columns =
          "customer_id, extract(epoch from started_at)::int as start, extract(epoch from ended_at)::int";
        const text = `select ${columns} as end from metered_periods where account_id = $1 and ${where}`;
        const found = await billing.pool.query<{ customer_id: string; start: number; end: number }>(text, [
          accountId,
        ]);
        return found.rows[0];
      });
    const { customer_id, start, end } = await period("the period is recorded", "true");
    await runFor(billing, accountId, start, 2);
    goTo(end + 46 * MINUTE);
    await period("it is closed", "due_cents is not null");
    const before = await metricsText();
    await stripe.billing.meterEvents.create({
      event_name: "compute_usage",
      payload: { stripe_customer_id: customer_id, value: "9999900" },
      timestamp: end - 1,
    });
    goTo(end + 61 * MINUTE);
    const counted = metricIn(before, "berth_compute_differences_total")!;
    const during = await scraper(metricsText).until(
      "berth_compute_differences_total",
      (count) => count === counted + 1,
    );
    await expectAlert("BerthComputeDifferences", { before, during, after: during });
  });

  test("that a payer disputes a payment, until it is answered", async () => {
    const { stripe, url } = billing.stripe;
    const scene = webhookScene(billing);
    const customer = await scene.customerOf(await scene.paid("monthly"));
    const [invoice] = (await stripe.invoices.list({ customer, limit: 1 })).data;
    const [payment] = (await stripe.invoicePayments.list({ invoice: invoice!.id })).data;
    const name = "berth_stripe_disputes_unanswered";
    const before = await scraper(metricsText).until(name, (count) => count === 0);
    await fetch(`${url}/_sim/payments/${payment!.payment.payment_intent}/dispute`, { method: "POST" });
    const during = await scraper(metricsText).until(name, (count) => count === 1);
    const [dispute] = (await stripe.disputes.list()).data;
    await stripe.disputes.update(dispute!.id, { evidence: { uncategorized_text: "what ran" }, submit: true });
    const after = await scraper(metricsText).until(name, (count) => count === 0);
    await expectAlert("BerthDisputesUnanswered", { before, during, after });
  });
});
