import { type DescMessage, fromBinary, type MessageShape } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import {
  CardExpiringSchema,
  InvoiceMirroredSchema,
  PaymentFailedSchema,
  SubscriptionChangedSchema,
} from "../../../proto/gen/berth/billing/v1/events_pb.ts";
import type { OutboxEvent } from "../../kit/events/outbox.ts";
import type { MirroredInvoice } from "../invoices/mirror-invoice.ts";
import { PRICE_VERSION } from "../pricing/price-versions.ts";
import type { MirroredSubscription } from "../subscription/mirror-subscription.ts";
import { type Before, changes } from "./changes.ts";
import type { Found } from "./read-customer.ts";

const NOW = Date.UTC(2027, 2, 10);
const NOTHING: Before = { subscriptions: new Map(), invoices: new Map(), periodStarts: new Map() };

const subscription = (change: Partial<MirroredSubscription> = {}): MirroredSubscription => ({
  id: "sub_1",
  accountId: "acc_1",
  status: "active",
  tier: "pro",
  cadence: "monthly",
  priceVersion: PRICE_VERSION,
  created: new Date(NOW),
  currentPeriodEnd: new Date(NOW + 86_400_000),
  cancelAtPeriodEnd: false,
  items: [],
  ...change,
});

const invoice = (change: Partial<MirroredInvoice> = {}): MirroredInvoice => ({
  id: "in_1",
  kind: "subscription",
  paysPlan: true,
  status: "open",
  periodStart: new Date(NOW),
  periodEnd: new Date(NOW),
  totalCents: 2_000,
  taxCents: 0,
  dueCents: 2_000,
  lines: [],
  created: new Date(NOW),
  attempts: 0,
  actionRequired: false,
  ...change,
});

const found = (change: Partial<Found>): Found => ({
  accountId: "acc_1",
  customerId: "cus_1",
  subscriptions: [],
  invoices: [],
  invoiced: [],
  redemptions: [],
  ...change,
});

/** What is recorded once this was. */
const recorded = ({ subscriptions, invoices }: Found): Before => ({
  subscriptions: new Map(
    subscriptions.map((each) => [
      each.id,
      { expiringCard: null, supersededPrices: null, duplicate: false, endAnnounced: false, ...each },
    ]),
  ),
  invoices: new Map(invoices.map((each) => [each.id, each])),
  periodStarts: new Map(),
});

const decode = <S extends DescMessage>(schema: S, event: OutboxEvent): MessageShape<S> => {
  expect(event.subject).toBe(`berth.billing.v1.${schema.name}.acc_1`);
  return fromBinary(schema, event.payload);
};

test("what is found as it is recorded changes nothing", () => {
  const same = found({ subscriptions: [subscription()], invoices: [invoice({ attempts: 1 })] });
  expect(changes(recorded(same), same, NOW)).toMatchObject({ events: [], countSeats: false, duplicates: [] });
});

const pending = { tier: "pro", cadence: "monthly" as const, at: NOW / 1_000, renewalCents: 2_000, seats: 0 };

test.each<[string, Partial<MirroredSubscription>, Partial<MirroredSubscription>]>([
  ["plan_changed", { tier: "pro" }, { tier: "team" }],
  ["plan_changed", { cadence: "monthly" }, { cadence: "annual" }],
  ["plan_changed", { tier: "team", pending }, { tier: "pro" }],
  ["change_scheduled", { tier: "team" }, { tier: "team", pending }],
  ["change_undone", { tier: "team", pending }, { tier: "team" }],
  ["cancellation_undone", { cancelAtPeriodEnd: true }, { cancelAtPeriodEnd: false }],
  ["", { tier: "team", pending }, { tier: "team", cancelAtPeriodEnd: true }],
])("that a subscription changes (%s) is reported once", (change, before, after) => {
  const then = found({ subscriptions: [subscription(before)] });
  const now = found({ subscriptions: [subscription(after)] });
  const [event, ...others] = changes(recorded(then), now, NOW).events;
  expect(others).toEqual([]);
  const { tier = "pro", cadence = "monthly" } = before;
  expect(decode(SubscriptionChangedSchema, event!)).toMatchObject({
    change,
    formerTier: tier,
    formerCadence: cadence,
  });
  expect(changes(recorded(now), now, NOW).events).toEqual([]);
});

test("one that ends in the second in which a period of compute began has no period after it", () => {
  const start = new Date(NOW);
  const compute = { item: "si_1", start, end: new Date(NOW + 30 * 86_400_000) };
  const ended = found({ subscriptions: [subscription({ status: "canceled", compute, endedAt: start })] });
  const periodStarts = new Map([["sub_1", [NOW / 1_000]]]);
  const { periods } = changes({ ...recorded(ended), periodStarts }, ended, NOW);
  expect(periods).toMatchObject([{ start: NOW / 1_000, end: NOW / 1_000 + 1 }]);
  expect(changes(recorded(ended), ended, NOW).periods).toEqual([]);
});

test("a subscription that is new, or changes its status, is reported with the former one", () => {
  const past = found({ subscriptions: [subscription({ status: "past_due" })] });
  const active = found({ subscriptions: [subscription()] });
  const first = changes(NOTHING, past, NOW);
  expect(decode(SubscriptionChangedSchema, first.events[0]!)).toMatchObject({ formerStatus: "" });
  const second = changes(recorded(past), active, NOW);
  expect(decode(SubscriptionChangedSchema, second.events[0]!)).toMatchObject({
    formerStatus: "past_due",
    status: "active",
  });
  expect([first.countSeats, second.countSeats]).toEqual([true, false]);
});

test("of two subscriptions that are paid the older one is the plan, the other one ends", () => {
  const younger = subscription({ id: "sub_2", tier: "team", created: new Date(NOW + 1_000) });
  const { plan, duplicates } = changes(NOTHING, found({ subscriptions: [younger, subscription()] }), NOW);
  expect({ plan, duplicates }).toEqual({ plan: "pro", duplicates: ["sub_2"] });
});

test("the plan is free once all has ended, and stays as it is where nothing was ever bought", () => {
  const ended = subscription({ status: "canceled" });
  expect(changes(NOTHING, found({ subscriptions: [ended] }), NOW).plan).toBe("none");
  expect(changes(NOTHING, found({}), NOW).plan).toBeUndefined();
});

test("a card that expires soon is reported once, another one anew", () => {
  const paymentMethod = { brand: "visa", last4: "4242", expMonth: 3, expYear: 2027 };
  const expiring = found({ subscriptions: [subscription({ paymentMethod })] });
  const before = recorded(expiring);
  const { reminders, events } = changes(before, expiring, NOW);
  expect(reminders).toMatchObject([{ expiringCard: "4242 2027-3" }]);
  expect(decode(CardExpiringSchema, events[0]!)).toMatchObject({ last4: "4242", expMonth: 3 });
  const reminded = (expiringCard: string): Before => ({
    ...before,
    subscriptions: new Map([["sub_1", { ...before.subscriptions.get("sub_1")!, expiringCard }]]),
  });
  expect(changes(reminded("4242 2027-3"), expiring, NOW).events).toEqual([]);
  expect(changes(reminded("1111 2027-3"), expiring, NOW).events).toHaveLength(1);
});

test("an invoice is reported by status; each further attempt to collect it that fails once more", () => {
  const first = found({ invoices: [invoice({ attempts: 1 })] });
  const { events } = changes(NOTHING, first, NOW);
  expect(decode(InvoiceMirroredSchema, events[0]!)).toMatchObject({ status: "open", totalCents: 2_000n });
  expect(decode(PaymentFailedSchema, events[1]!)).toMatchObject({ invoiceId: "in_1" });
  const second = changes(recorded(first), found({ invoices: [invoice({ attempts: 2 })] }), NOW);
  expect(second.events.map((event) => decode(PaymentFailedSchema, event).invoiceId)).toEqual(["in_1"]);
});

test("causes are reported first: a payment before the plan that begins with it, an end at once before its last invoice", () => {
  const names = (events: OutboxEvent[]) => events.map(({ subject }) => subject.split(".")[3]);
  const paid = invoice({ status: "paid", subscriptionId: "sub_1" });
  const begun = changes(NOTHING, found({ subscriptions: [subscription()], invoices: [paid] }), NOW);
  expect(names(begun.events)).toEqual(["InvoiceMirrored", "SubscriptionChanged"]);
  const endedAt = new Date(NOW + 1_000);
  const ended = subscription({ status: "canceled", endedAt });
  const last = invoice({ id: "in_2", status: "paid", subscriptionId: "sub_1", created: endedAt });
  const failed = invoice({ attempts: 4, subscriptionId: "sub_1" });
  const over = changes(NOTHING, found({ subscriptions: [ended], invoices: [last, failed] }), NOW);
  expect(names(over.events)).toEqual([
    ...["InvoiceMirrored", "PaymentFailed"],
    "SubscriptionChanged",
    "InvoiceMirrored",
  ]);
});

test("an event of a subscription says its price, its period and its code, and whether it is a second one", () => {
  const items = [
    { kind: "plan", ref: "pro", quantity: 1, unitPriceUsd: 20 },
    { kind: "seat", ref: "pro", quantity: 2, unitPriceUsd: 10 },
    { kind: "compute", ref: "compute", quantity: 0, unitPriceUsd: 0.0001 },
  ];
  const first = subscription({ items, coupon: { code: "HALF", label: "Half" } });
  const second = subscription({ id: "sub_2", items, created: new Date(NOW + 1_000) });
  const both = found({ subscriptions: [second, first] });
  const events = changes(NOTHING, both, NOW).events.map((each) => decode(SubscriptionChangedSchema, each));
  expect(events).toMatchObject([
    { cadence: "monthly", renewalCents: 4_000n, additionalMembers: 2, promoCode: "HALF", duplicate: false },
    { subscriptionId: "sub_2", promoCode: "", duplicate: true },
  ]);
  const before = recorded(both);
  const marked: Before = {
    ...before,
    subscriptions: new Map([["sub_2", { ...before.subscriptions.get("sub_2")!, duplicate: true }]]),
  };
  const ended = found({ subscriptions: [subscription({ id: "sub_2", status: "canceled" })] });
  expect(decode(SubscriptionChangedSchema, changes(marked, ended, NOW).events[0]!)).toMatchObject({
    status: "canceled",
    duplicate: true,
  });
});
