import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { afterAll, beforeAll, expect, test } from "vitest";
import { InvoiceMirroredSchema } from "../../../proto/gen/berth/billing/v1/events_pb.ts";
import { eventually } from "../../kit/testing/testing.ts";
import {
  cancelAsPreviewed,
  DAY,
  FAILS_LATER,
  pass as passIn,
  type Subscriber,
  subscriber,
} from "../cancellation/testing.ts";
import { makePromo } from "../coupons/testing.ts";
import { advanceTo, closePeriods, dueCents, runFor } from "../metering/testing.ts";
import { setMembers } from "../seats/testing.ts";
import { startBilling, type TestBilling } from "../testing.ts";

const CREDIT = 1_000;
/** In Germany, on an amount in cents. */
const withTax = (cents: number) => cents + Math.round(cents * 0.19);

let billing: TestBilling;
beforeAll(async () => {
  billing = await startBilling({ STRIPE_TAX: "on" });
  const { stripe } = billing.stripe;
  await stripe.tax.registrations.create({
    country: "DE",
    country_options: { de: { type: "standard" } },
    active_from: "now",
  });
});
afterAll(() => billing?.stop());

const advance = (seconds: number) => billing.stripe.clock.advance(seconds);
const cents = (usd: number | undefined) => Math.round((usd ?? 0) * 100);

const pass = (one: Subscriber, kind: "plan" | "compute", minutes: number) =>
  passIn(billing, one, kind, minutes);

test("tax is added by the country that the payer gives, and returned in proportion", async () => {
  const accountId = billing.account();
  const choice = { accountId, tierId: "pro", cadence: "annual" as const };
  const unknown = await billing.as(accountId).previewCheckout(choice);
  expect([unknown.taxAtCheckout, unknown.taxUsd, unknown.totalUsd]).toEqual([true, undefined, 200]);
  const annual = await subscriber(billing, { country: "DE" });
  const [paid] = await annual.invoices();
  expect([paid!.amount_paid, paid!.automatic_tax.status]).toEqual([23_800, "complete"]);
  const { data } = await annual.owner.listInvoices({ accountId: annual.accountId });
  expect(data.map(({ totalUsd, taxUsd }) => [totalUsd, taxUsd])).toEqual([[238, 38]]);
  const [event] = await billing.published(InvoiceMirroredSchema, annual.accountId);
  expect(event!.lines.map(({ kind, amountCents }) => [kind, amountCents])).toEqual([
    ["plan", 20_000n],
    ["tax", 3_800n],
  ]);
  advance(20 * DAY);
  const answer = await cancelAsPreviewed(annual);
  expect(cents(answer.refund?.amountUsd)).toBe(withTax(18_000));
  const [note] = await annual.notes();
  expect([note!.total, note!.total_excluding_tax]).toEqual([withTax(18_000), 18_000]);
  await annual.isFree();
  const again = await annual.owner.previewCheckout({ ...choice, accountId: annual.accountId });
  expect([again.taxAtCheckout, again.taxUsd, again.totalUsd, again.renewalUsd]).toEqual([
    false,
    38,
    238,
    238,
  ]);
});

test("the renewal that a change of the plan announces is with tax, and then charged", async () => {
  const monthly = await subscriber(billing, { cadence: "monthly", members: 5, country: "DE" });
  const { accountId, owner } = monthly;
  const preview = (tierId: string) => owner.previewSubscriptionChange({ accountId, tierId });
  expect((await preview("pro")).renewalUsd).toBe(withTax(4_000) / 100);
  const { renewalUsd } = await preview("team");
  expect(renewalUsd).toBe(withTax(10_000) / 100);
  await owner.updateSubscription({ accountId, tierId: "team" });
  await pass(monthly, "plan", 61);
  await eventually(
    "it is paid",
    async () => (await monthly.invoices())[0]?.amount_paid === cents(renewalUsd),
  );
});

test("a payer elsewhere pays no tax", async () => {
  const monthly = await subscriber(billing, { cadence: "monthly", country: "US" });
  expect((await monthly.invoices())[0]!.amount_paid).toBe(2_000);
});

test("with a discount and members, what is refunded is to the cent what the preview said, and what the tax office expects", async () => {
  await makePromo(billing.stripe.stripe, "THIRD", { coupon: { percent_off: 33.33 } });
  const annual = await subscriber(billing, { members: 4, code: "THIRD", country: "DE" });
  advance(75 * DAY);
  await cancelAsPreviewed(annual);
  const [note] = await annual.notes();
  const expected = note!.lines.data.map(({ amount, discount_amount: less }) => withTax(amount - less));
  expect(note!.total).toBe(expected.reduce((sum, amount) => sum + amount, 0));
});

test("a smaller plan that was scheduled is taxed as the former one", async () => {
  const monthly = await subscriber(billing, { tierId: "team", cadence: "monthly", country: "DE" });
  const { accountId, owner } = monthly;
  await owner.updateSubscription({ accountId, tierId: "pro" });
  const { currentPeriodEnd } = await owner.getSubscription({ accountId });
  advance(Number(currentPeriodEnd!.seconds) + 3_700 - billing.stripe.clock.now());
  await billing.stripe.webhooks.flush();
  await eventually("it is paid", async () => (await monthly.invoices())[0]?.amount_paid === withTax(2_000));
});

/**
 * Moves the clock to a moment at which two lines for the rest of a year, of which one is returned, have a cent less tax in
 * all than their sum would have. Returns it.
 */
async function goToRounding({ atStripe }: Subscriber, larger: number, smaller: number): Promise<number> {
  const plan = (await atStripe()).items.data.find(({ price }) => price.metadata.kind === "plan");
  const { current_period_start: start, current_period_end: end } = plan!;
  const isRounded = (at: number) => {
    const rest = (cents: number) => Math.round((cents * (end - at)) / (end - start));
    const [more, less] = [rest(larger), rest(smaller)];
    return withTax(more) - withTax(less) < withTax(more - less);
  };
  let at = billing.stripe.clock.now() + 60;
  while (!isRounded(at) || !isRounded(at + 60)) at += 60;
  advance(at - billing.stripe.clock.now());
  return at;
}

test("a larger plan is returned however the taxes of its invoice were rounded", async () => {
  const annual = await subscriber(billing, { country: "DE" });
  advance(20 * DAY);
  const at = await goToRounding(annual, 100_000, 20_000);
  const { accountId, owner } = annual;
  await owner.updateSubscription({ accountId, tierId: "team", asOf: timestampFromMs(at * 1_000) });
  await cancelAsPreviewed(annual);
  const changed = (await annual.invoices()).find(
    ({ billing_reason: why, amount_paid: cents }) => why === "subscription_update" && cents > 0,
  );
  const note = (await annual.notes()).find(({ invoice }) => invoice === changed!.id);
  expect([0, 1]).toContain(changed!.amount_paid - note!.total);
});

test("members who were not paid are not owed however the taxes of their invoice were rounded", async () => {
  const annual = await subscriber(billing, { members: 4, country: "DE" });
  const { stripe } = billing.stripe;
  const method = await stripe.paymentMethods.attach("pm_card_chargeCustomerFail", {
    customer: annual.customer,
  });
  await stripe.subscriptions.update(annual.id, { default_payment_method: method.id });
  advance(20 * DAY);
  await goToRounding(annual, 30_000, 10_000);
  await setMembers(billing, annual.accountId, 6);
  const open = await eventually("they are invoiced", async () =>
    (await annual.invoices()).find(({ status }) => status === "open"),
  );
  const { credits } = await cancelAsPreviewed(annual);
  expect(credits).toMatchObject([{ kind: "open_invoice", amountUsd: open.total / 100 }]);
  expect((await stripe.invoices.retrieve(open.id)).status).toBe("void");
});

test("compute is taxed after the plan's credit; its statement has the tax as a line, and adds up to the invoice", async () => {
  const monthly = await subscriber(billing, { cadence: "monthly", country: "DE" });
  await runFor(billing, monthly.accountId, billing.stripe.clock.now(), 20);
  await pass(monthly, "compute", 46);
  await closePeriods(billing, monthly.accountId, 1);
  advance(20 * 60);
  await eventually("it is paid", async () => (await monthly.invoices())[0]!.status === "paid");
  const compute = dueCents(20) - CREDIT;
  const [paid] = await monthly.invoices();
  expect(paid!.amount_paid).toBe(withTax(2_000) + withTax(compute));
  const month = new Date((paid!.created - 5 * DAY) * 1_000).toISOString().slice(0, 7);
  const statement = await eventually("the statement has the tax", async () => {
    const { data } = await monthly.owner.listStatements({ accountId: monthly.accountId });
    const found = await monthly.owner.getStatement({
      accountId: monthly.accountId,
      month: data[0]?.month ?? month,
    });
    return found.lines.some(({ kind }) => kind === "tax") && found;
  });
  expect(cents(statement.chargedUsd)).toBe(withTax(compute));
  const sum = statement.lines.reduce((total, { amountUsd }) => total + amountUsd, 0);
  expect(cents(sum)).toBe(withTax(compute));
  expect(cents(statement.periods[0]!.taxUsd)).toBe(withTax(compute) - compute);
  await runFor(billing, monthly.accountId, billing.stripe.clock.now(), 3);
  const answer = await cancelAsPreviewed(monthly);
  const charged = answer.charges.map(({ amountUsd }) => cents(amountUsd));
  expect(charged).toEqual([withTax(Math.max(0, dueCents(3) - CREDIT))]);
});

test("of a renewal's draft only compute and its tax are charged", async () => {
  const annual = await subscriber(billing, { members: 4, country: "DE" });
  await advanceTo(billing, annual.accountId, 340);
  await runFor(billing, annual.accountId, billing.stripe.clock.now(), 5);
  await pass(annual, "plan", 10);
  const answer = await cancelAsPreviewed(annual);
  const compute = withTax(dueCents(5) - CREDIT);
  expect(answer.charges.map(({ kind, amountUsd }) => [kind, cents(amountUsd)])).toEqual([
    ["compute", compute],
  ]);
  expect(answer.credits.map(({ kind, amountUsd }) => [kind, cents(amountUsd)])).toEqual([
    ["renewal", withTax(20_000) + withTax(10_000)],
  ]);
  const charged = (await annual.invoices()).filter(({ amount_paid }) => amount_paid > 0);
  expect(charged[0]!.amount_paid).toBe(compute);
});

test("canceled while past due, plan and members are credited with their tax, and compute stays owed with its tax", async () => {
  const choice = { cadence: "monthly" as const, members: 5, card: FAILS_LATER, country: "DE" };
  const failing = await subscriber(billing, choice);
  await runFor(billing, failing.accountId, billing.stripe.clock.now(), 20);
  await pass(failing, "plan", 46);
  await closePeriods(billing, failing.accountId, 1);
  advance(20 * 60);
  await eventually("it is past due", async () => (await failing.atStripe()).status === "past_due");
  await runFor(billing, failing.accountId, billing.stripe.clock.now(), 3);
  const answer = await cancelAsPreviewed(failing);
  expect(answer.charges.map(({ amountUsd }) => cents(amountUsd))).toEqual([
    withTax(dueCents(20) - CREDIT),
    withTax(dueCents(3) - CREDIT),
  ]);
  expect(answer.credits.map(({ amountUsd }) => cents(amountUsd))).toEqual([withTax(2_000) + withTax(2_000)]);
});
