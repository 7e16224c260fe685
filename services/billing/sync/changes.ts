import type { OutboxEvent } from "../../kit/events/outbox.ts";
import { invoiceEvents } from "../invoices/invoice-events.ts";
import type { MirroredInvoice } from "../invoices/mirror-invoice.ts";
import type { RecordedInvoice } from "../invoices/sql.ts";
import { meteredPeriods } from "../metering/periods.ts";
import type { MeteredPeriod } from "../metering/sql.ts";
import type { MirroredSubscription } from "../subscription/mirror-subscription.ts";
import { pickSubscription } from "../subscription/pick-subscription.ts";
import { type Reminders, remindersOf } from "../subscription/reminders.ts";
import type { RecordedSubscription } from "../subscription/sql.ts";
import { SUBSCRIBED } from "../subscription/statuses.ts";
import { beginsToBeBilled, subscriptionEvents } from "../subscription/subscription-events.ts";
import type { Found } from "./read-customer.ts";

/** What is recorded of what was found, by id. */
export type Before = {
  subscriptions: ReadonlyMap<string, RecordedSubscription>;
  invoices: ReadonlyMap<string, RecordedInvoice>;
  /** When the known periods of subscriptions began, in seconds. */
  periodStarts: ReadonlyMap<string, number[]>;
};

/** What is to be recorded of a customer, and what follows from it. */
export type Changes = Pick<Found, "subscriptions" | "invoices" | "invoiced" | "redemptions"> & {
  reminders: Reminders[];
  periods: MeteredPeriod[];
  /** Subscriptions beside the one that is kept, which end. */
  duplicates: string[];
  /** Whether the members of the account are to be counted. */
  countSeats: boolean;
  /** What the account subscribes to: `none`, or undefined when nothing says. */
  plan: string | "none" | undefined;
  events: OutboxEvent[];
};

/** Returns what is to be recorded of a customer. `now` is in milliseconds. Pure. */
export function changes(before: Before, found: Found, now: number): Changes {
  const { accountId, customerId, subscriptions, invoices, invoiced, redemptions } = found;
  const { kept, duplicates } = pickSubscription(subscriptions);
  const subscribed = kept && SUBSCRIBED.includes(kept.status) ? kept.tier : "none";
  const recorded = ({ id }: { id: string }) => before.subscriptions.get(id);
  const reminders = subscriptions.map((each) => remindersOf(recorded(each), each, now));
  return {
    subscriptions,
    invoices,
    invoiced: invoiced.filter(({ isDraft }) => !isDraft),
    redemptions,
    reminders,
    periods: meteredPeriods(customerId, subscriptions, invoiced, before.periodStarts),
    duplicates: duplicates.map(({ id }) => id),
    countSeats: subscriptions.some((each) => beginsToBeBilled(recorded(each), each)),
    plan: subscriptions.length > 0 ? subscribed : undefined,
    events: inOrder(subscriptions, invoices).flatMap((each) => {
      if ("lines" in each) return invoiceEvents(before.invoices.get(each.id), accountId, each);
      const duplicate = duplicates.includes(each) || undefined;
      return [
        ...subscriptionEvents(recorded(each), each, duplicate),
        ...reminders[subscriptions.indexOf(each)]!.events,
      ];
    }),
  };
}

/**
 * Returns subscriptions and invoices in the order in which they are reported, causes first: a payment before the
 * subscription that begins with it, and before the end of one that is not paid; the last invoice after an end at once.
 */
function inOrder(subscriptions: MirroredSubscription[], invoices: MirroredInvoice[]) {
  const byAge = <T extends { created: Date }>(all: T[]) =>
    all.toSorted((a, b) => a.created.getTime() - b.created.getTime());
  const left = new Set(byAge(invoices));
  const takeInvoices = (isDue: (invoice: MirroredInvoice) => boolean) =>
    [...left].filter((invoice) => isDue(invoice) && left.delete(invoice));
  const before = byAge(subscriptions).flatMap((subscription) => {
    const { id, endedAt } = subscription;
    const precedes = ({ subscriptionId, created }: MirroredInvoice) =>
      subscriptionId === id && (endedAt === undefined || created < endedAt);
    return [...takeInvoices(precedes), subscription];
  });
  return [...before, ...left];
}
