import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import type Stripe from "stripe";
import {
  InvoiceMirroredSchema,
  PaymentActionRequiredSchema,
  PaymentFailedSchema,
  SubscriptionChangedSchema,
} from "../../../proto/gen/berth/billing/v1/events_pb.ts";
import { emit } from "../../kit/events/outbox.ts";
import { type Pool, type Tx, transaction } from "../../kit/postgres/db.ts";
import type { AccountLock } from "../accounts/account-lock.ts";
import { forgetCustomer } from "../accounts/customer.ts";
import type { Members } from "../accounts/members.ts";
import { addCustomer, findAccountOfCustomer } from "../accounts/sql.ts";
import { changeTier } from "../accounts/tier.ts";
import { readPaidInvoices } from "../cancellation/paid-invoices.ts";
import type { PaidInvoice } from "../cancellation/refund.ts";
import { askCancellation } from "../cancellation/sql.ts";
import { lookupKey } from "../catalog/keys.ts";
import type { PriceId } from "../catalog/price-ids.ts";
import { deleteSpentCoupon } from "../coupons/sql.ts";
import { invoicedPeriods, recordComputePeriods } from "../metering/record-periods.ts";
import { type InvoicedPeriod, putInvoiced } from "../metering/sql.ts";
import type { AdjustSeats } from "../seats/adjust-seats.ts";
import { putSeatCheck } from "../seats/sql.ts";
import { makeOnce } from "../stripe/make-once.ts";
import { isStripeError, type Provider, readIfThere } from "../stripe/provider.ts";
import {
  EXPAND_LIST,
  type MirroredInvoice,
  type MirroredSubscription,
  mirrorInvoice,
  mirrorSubscription,
} from "./mirror.ts";
import { recordReminders } from "./reminders.ts";
import { sortOut } from "./sort-out.ts";
import {
  findSubscription,
  INVOICES,
  LIVE,
  putInvoice,
  putSubscription,
  SUBSCRIBED,
  setPaidInvoices,
} from "./sql.ts";

/** In these compute is billed. */
const BILLED = ["active", "trialing"];

type Deps = {
  pool: Pool;
  provider: Provider;
  lock: AccountLock;
  priceId: PriceId;
  members: Members;
  adjustSeats: AdjustSeats;
  /** The provider's time, in milliseconds. */
  now: () => number;
};

/** Brings what Berth records of a customer in line with the payment provider. */
export type Sync = (customerId: string) => Promise<void>;
/** As `Sync`, under the lock of the customer's account. */
export type SyncLocked = (accountId: string, customerId: string) => Promise<void>;

/**
 * Returns functions that read all that the provider knows of a customer and record it: the order and number of webhooks
 * do not matter. What follows from it (plan, events, the end of a second subscription) is committed with it. A customer
 * that is not of this installation is passed over. They throw 502 payment_provider_unavailable.
 */
export function createSync(deps: Deps): { sync: Sync; syncLocked: SyncLocked } {
  const { pool, provider, lock, priceId, adjustSeats, now } = deps;

  async function sync(customerId: string): Promise<void> {
    const accountId = await accountOf(deps, customerId);
    if (accountId === undefined) return;
    await lock(accountId, async () => {
      await syncLocked(accountId, customerId);
      if (await adjustSeats(accountId)) await readAndRecord(accountId, customerId);
    });
  }

  async function syncLocked(accountId: string, customerId: string): Promise<void> {
    const { subscriptions } = await readAndRecord(accountId, customerId);
    const { kept } = sortOut(subscriptions);
    if (kept && BILLED.includes(kept.status) && !kept.compute) {
      await attachCompute(kept.id);
      await readAndRecord(accountId, customerId);
    }
    if (subscriptions.some(({ status }) => LIVE.includes(status))) return;
    const customer = await provider.ask((stripe) => stripe.customers.retrieve(customerId));
    if (customer.deleted) await forgetCustomer(pool, accountId, customerId);
  }

  async function readAndRecord(accountId: string, customerId: string): Promise<Found> {
    const found = await readCustomer(deps, accountId, customerId);
    await transaction(pool, (tx) => record(tx, { accountId, customerId }, found, now()));
    return found;
  }

  /** Compute is billed monthly, also beside an annual plan, which Checkout cannot sell: its item is added afterwards. */
  async function attachCompute(subscription: string): Promise<void> {
    const price = await priceId(lookupKey("compute"));
    const item = { subscription, price, proration_behavior: "none" as const };
    await makeOnce({ pool, provider }, `attach:${subscription}`, (stripe, options) =>
      stripe.subscriptionItems.create(item, options),
    );
  }

  return { sync, syncLocked };
}

/**
 * Returns whose customer it is; the provider knows it, should this be recorded nowhere else. Undefined for a customer of
 * whom this installation knows nothing: several may share one account at the provider.
 */
async function accountOf({ pool, provider, members }: Deps, customerId: string): Promise<string | undefined> {
  const known = await findAccountOfCustomer(pool, customerId);
  if (known !== undefined) return known;
  const accountId = await readAccountId(provider, customerId);
  if (!accountId || (await members(accountId)).handle === "") return undefined;
  await addCustomer(pool, accountId, customerId);
  // Undefined when the account is another customer already.
  return findAccountOfCustomer(pool, customerId);
}

async function readAccountId(provider: Provider, customerId: string): Promise<string | undefined> {
  const customer = await readIfThere(provider, (stripe) => stripe.customers.retrieve(customerId));
  return customer && !customer.deleted ? customer.metadata.accountId : undefined;
}

type Found = {
  subscriptions: MirroredSubscription[];
  invoices: MirroredInvoice[];
  /** What a refund of an annual subscription is computed of. */
  paid: PaidInvoice[];
  invoiced: InvoicedPeriod[];
};

async function readCustomer({ pool, provider }: Deps, accountId: string, customer: string): Promise<Found> {
  const lists = provider.ask(async (stripe) => {
    const [subscriptions, invoices] = await Promise.all([
      stripe.subscriptions.list({ customer, status: "all", limit: 100, expand: EXPAND_LIST }),
      stripe.invoices.list({ customer, limit: INVOICES * 2 }),
    ]);
    return { subscriptions: subscriptions.data, invoices: invoices.data };
  }, "resource_missing");
  const { subscriptions, invoices } = await lists.catch(async (error) => {
    if (!isStripeError(error, "resource_missing")) throw error;
    return { subscriptions: await readOfDeleted({ pool, provider }, accountId, customer), invoices: [] };
  });
  const mirrored = subscriptions.flatMap((each) => mirrorSubscription(accountId, each) ?? []);
  const computeItems = new Set(mirrored.flatMap(({ compute }) => compute?.item ?? []));
  const { kept } = sortOut(mirrored);
  const annual = kept?.cadence === "annual" && subscriptions.find(({ id }) => id === kept.id);
  const paid = annual ? await provider.ask((stripe) => readPaidInvoices(stripe, annual)) : [];
  const waiting = await provider.ask((stripe) => readWaiting(stripe, invoices));
  return {
    subscriptions: mirrored,
    invoices: invoices.flatMap((each: Stripe.Invoice) => mirrorInvoice(each, computeItems, waiting) ?? []),
    paid,
    invoiced: invoices.flatMap((each) => invoicedPeriods(each, computeItems)),
  };
}

/** Returns the subscription that is recorded of a customer who was deleted, and so has no lists. Throws 502 for others. */
async function readOfDeleted(
  { pool, provider }: Pick<Deps, "pool" | "provider">,
  accountId: string,
  customer: string,
): Promise<Stripe.Subscription[]> {
  const found = await findSubscription(pool, accountId);
  return provider.ask(async (stripe) => {
    await stripe.customers.retrieve(customer);
    return found ? [await stripe.subscriptions.retrieve(found.id)] : [];
  });
}

/** Returns which of a customer's invoices wait until their payer confirms the payment, as banks want at times. */
async function readWaiting(stripe: Stripe, invoices: Stripe.Invoice[]): Promise<Set<string>> {
  const failed = invoices.filter(({ status, attempt_count: attempts }) => status === "open" && attempts > 0);
  const payments = await Promise.all(
    failed.map(({ id: invoice }) =>
      stripe.invoicePayments.list({ invoice, status: "open", expand: ["data.payment.payment_intent"] }),
    ),
  );
  const isWaiting = ({ payment: { payment_intent: intent } }: Stripe.InvoicePayment) =>
    typeof intent === "object" && intent?.status === "requires_action";
  return new Set(failed.flatMap(({ id }, index) => (payments[index]!.data.some(isWaiting) ? id : [])));
}

type Ids = { accountId: string; customerId: string };

async function record(tx: Tx, { accountId, customerId }: Ids, found: Found, now: number): Promise<void> {
  const { subscriptions, invoices, paid, invoiced } = found;
  for (const subscription of subscriptions) {
    await recordSubscription(tx, subscription);
    await recordReminders(tx, subscription, now);
  }
  await recordComputePeriods(tx, customerId, subscriptions, invoiced);
  for (const invoice of invoices) await recordInvoice(tx, accountId, invoice);
  for (const period of invoiced) await putInvoiced(tx, period);
  await setPaidInvoices(tx, paid);
  const { kept, duplicates } = sortOut(subscriptions);
  for (const { id } of duplicates)
    await askCancellation(tx, { subscriptionId: id, accountId, kind: "duplicate" });
  const isSubscribed = kept && SUBSCRIBED.includes(kept.status);
  if (subscriptions.length > 0) await changeTier(tx, accountId, isSubscribed ? kept.tier : undefined);
}

/** Records a subscription as the provider has it, and sends what follows. To be called under the account's lock. */
export async function recordSubscription(tx: Tx, subscription: MirroredSubscription): Promise<void> {
  const before = await putSubscription(tx, subscription);
  const { id, accountId, status, tier, cancelAtPeriodEnd, promotionCode, created } = subscription;
  if (promotionCode && SUBSCRIBED.includes(status))
    await deleteSpentCoupon(tx, accountId, promotionCode, created);
  // Members may have changed while it was not billed.
  if (SUBSCRIBED.includes(status) && !SUBSCRIBED.includes(before?.status ?? ""))
    await putSeatCheck(tx, accountId);
  if (before?.status === status && before.cancelAtPeriodEnd === cancelAtPeriodEnd) return;
  await emit(tx, SubscriptionChangedSchema, accountId, {
    accountId,
    subscriptionId: id,
    status,
    formerStatus: before?.status ?? "",
    tier,
    cancelAtPeriodEnd,
    currentPeriodEnd: timestampFromDate(subscription.currentPeriodEnd),
  });
}

async function recordInvoice(tx: Tx, accountId: string, invoice: MirroredInvoice): Promise<void> {
  const before = await putInvoice(tx, accountId, invoice);
  const { id: invoiceId, kind, status, totalCents, nextAttempt, attempts, actionRequired } = invoice;
  if (before?.status !== status)
    await emit(tx, InvoiceMirroredSchema, accountId, {
      accountId,
      invoiceId,
      kind,
      status,
      totalCents: BigInt(totalCents),
    });
  const about = { accountId, invoiceId, totalCents: BigInt(totalCents) };
  if (actionRequired && !before?.actionRequired)
    await emit(tx, PaymentActionRequiredSchema, accountId, about);
  else if (status === "open" && attempts > (before?.attempts ?? 0))
    await emit(tx, PaymentFailedSchema, accountId, {
      ...about,
      ...(nextAttempt && { nextAttemptAt: timestampFromDate(nextAttempt) }),
    });
}
