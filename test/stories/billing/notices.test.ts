import { afterAll, beforeAll, expect, test } from "vitest";
import { refunds } from "../../../services/billing/refunds-main.ts";
import { type Choice, subscribe } from "../../../services/billing/subscription/testing.ts";
import { startBilling, type TestBilling } from "../../../services/billing/testing.ts";
import { newId } from "../../../services/kit/ids.ts";
import { eventually } from "../../../services/kit/testing/testing.ts";
import { startNotifications, type TestNotifications } from "../../../services/notifications/testing.ts";

const DAY = 86_400;

let notifications: TestNotifications;
let billing: TestBilling;
beforeAll(async () => {
  notifications = await startNotifications();
  billing = await startBilling({ NATS_URL: notifications.env.NATS_URL! });
});
afterAll(async () => {
  await billing?.stop();
  await notifications?.stop();
});

/** Returns an account whose owner has subscribed, with what its owner is told. */
async function subscribed(choice: Choice = {}) {
  const owner = notifications.user();
  const accountId = notifications.account([owner, "owner"]);
  const handle = `h${newId("acc").slice(-8)}`;
  billing.neighbours.accounts.set(accountId, { handle, members: [{ ...owner, role: "owner" }] });
  const account = billing.as(accountId);
  const subscription = await subscribe(billing, accountId, choice);
  const feed = async () => (await notifications.as(owner.userId).listNotifications({ limit: 100 })).data;
  return {
    accountId,
    account,
    subscriptionId: subscription.id,
    feed,
    /** Goes to the day after the end of the period. */
    async renew() {
      const { items } = await billing.stripe.stripe.subscriptions.retrieve(subscription.id);
      billing.stripe.clock.advance(items.data[0]!.current_period_end + DAY - billing.stripe.clock.now());
    },
    /** Waits until the owner is told of a kind, so many times. */
    told: (kind: string, times = 1) =>
      eventually(`${kind} is in the feed`, async () => {
        const found = (await feed()).filter((notification) => notification.kind === kind);
        return found.length >= times && found;
      }),
  };
}

const advance = (days: number) => billing.stripe.clock.advance(days * DAY);

/** Reads all customers now whom a night has marked for later. */
const hurry = () => billing.pool.query("update due_customers set next_at = now() where next_at > now()");

const kinds = (feed: { kind: string }[]) => feed.map(({ kind }) => kind);

test("a renewal that the bank wants confirmed: the owner is told, confirms on the invoice's page, and it is paid", async () => {
  const { accountId, account, feed, told, renew } = await subscribed({ card: "4000002760003184" });
  await renew();
  const [asked] = await told("billing.payment_action_required");
  expect(asked!.title).toContain("A payment of $20.00");
  expect(kinds(await feed())).not.toContain("billing.payment_failed");
  // A read that was under way may hold the subscription of before and the invoice of after; the webhook starts another.
  const { invoices } = await eventually("the subscription is past due", async () => {
    const read = await account.getSubscription({ accountId });
    return read.status === "past_due" && read;
  });
  const open = invoices.find((invoice) => invoice.status === "open");
  expect(asked!.metadata.invoiceId).toBe(open!.id);
  await fetch(open!.hostedUrl!, { method: "POST" });
  await told("billing.invoice_paid", 2);
  // The next attempts that nobody confirms are failures.
  await renew();
  await told("billing.payment_action_required", 2);
  advance(3);
  await told("billing.payment_failed");
});

test("a card that expires within a month is told once; the next one is not", async () => {
  const { subscriptionId, feed, told } = await subscribed();
  const { stripe } = billing.stripe;
  const { default_payment_method: method } = await stripe.subscriptions.retrieve(subscriptionId, {
    expand: ["default_payment_method"],
  });
  if (typeof method !== "object" || !method?.card) throw new Error("the subscription has no card");
  const { exp_year, exp_month, last4 } = method.card;
  expect(kinds(await feed())).not.toContain("billing.card_expiring");
  const days = (Date.UTC(exp_year, exp_month) / 1_000 - billing.stripe.clock.now()) / DAY;
  advance(Math.floor(days) - 31);
  advance(3);
  await hurry();
  const [expiring] = await told("billing.card_expiring");
  expect(expiring!.metadata).toMatchObject({ subscriptionId, last4 });
  advance(3);
  await hurry();
  await told("billing.invoice_paid");
  expect(kinds(await feed()).filter((kind) => kind === "billing.card_expiring")).toHaveLength(1);
});

test("a refund that staff deny, and one that the bank fails after it was made", async () => {
  const denied = await subscribed({ cadence: "annual" });
  await denied.account.cancelSubscription({ accountId: denied.accountId });
  await denied.told("billing.refund_under_review");
  expect((await refunds(billing.pool, ["deny", denied.subscriptionId])).exitCode).toBe(0);
  const [refusal] = await denied.told("billing.refund_denied");
  expect(refusal!.title).toContain("A refund of $180.00");

  const failed = await subscribed({ cadence: "annual" });
  advance(20);
  await failed.account.cancelSubscription({ accountId: failed.accountId });
  await failed.told("billing.refund_issued");
  const { data } = await billing.stripe.stripe.refunds.list({ limit: 1 });
  await fetch(`${billing.stripe.url}/_sim/refunds/${data[0]!.id}/fail`, { method: "POST" });
  const [failure] = await failed.told("billing.refund_failed");
  expect(failure!.title).toContain("A refund of $180.00");
});
