import { type Pool, transaction } from "../../kit/postgres/db.ts";
import type { AccountLock } from "../accounts/account-lock.ts";
import { forgetCustomer, resolveAccount } from "../accounts/customer.ts";
import type { ReadMembers } from "../accounts/read-members.ts";
import type { ReadOutcome } from "../due/worker.ts";
import { lookupKey } from "../pricing/keys.ts";
import { isPaidTier } from "../pricing/plans.ts";
import type { PriceId } from "../pricing/price-ids.ts";
import { putSchedule } from "../schedule/put-schedule.ts";
import type { AdjustSeats } from "../seats/adjust-seats.ts";
import { makeOnce } from "../stripe/make-once.ts";
import type { Provider } from "../stripe/provider.ts";
import { pendingOf } from "../subscription/pending.ts";
import { pickSubscription } from "../subscription/pick-subscription.ts";
import { BILLED, LIVE } from "../subscription/statuses.ts";
import { changes } from "./changes.ts";
import { type Found, readCustomer } from "./read-customer.ts";
import { readRecorded, record } from "./record.ts";

type Deps = {
  pool: Pool;
  provider: Provider;
  lock: AccountLock;
  priceId: PriceId;
  readMembers: ReadMembers;
  adjustSeats: AdjustSeats;
  /** The provider's time, in milliseconds. */
  now: () => number;
};

/** Brings what Berth records of a customer in line with the payment provider. */
export type Sync = (customerId: string) => Promise<ReadOutcome>;
/** Does so under the lock of the customer's account, which the caller has. */
export type SyncLocked = (accountId: string, customerId: string) => Promise<void>;

/**
 * Returns functions that read all that the provider knows of a customer and record it: the order and number of webhooks
 * do not matter. What follows from it (plan, events, the end of a second subscription) is committed with it. A customer
 * that is not of this installation is passed over. They throw 502 payment_provider_unavailable.
 */
export function createSync(deps: Deps): { sync: Sync; syncLocked: SyncLocked } {
  const { pool, provider, lock, priceId, adjustSeats, now } = deps;

  async function sync(customerId: string): Promise<ReadOutcome> {
    const accountId = await resolveAccount(deps, customerId);
    if (accountId === undefined) return "passed_over";
    await lock(accountId, async () => {
      await syncLocked(accountId, customerId);
      if (await adjustSeats(accountId)) await readAndRecord(accountId, customerId);
    });
  }

  async function syncLocked(accountId: string, customerId: string): Promise<void> {
    const { subscriptions } = await readAndRecord(accountId, customerId);
    const { kept } = pickSubscription(subscriptions);
    if (kept && BILLED.includes(kept.status) && !kept.compute) {
      await attachCompute(kept.id);
      await readAndRecord(accountId, customerId);
    }
    if (kept?.pending) await keepDiscounts(kept.id);
    if (subscriptions.some(({ status }) => LIVE.includes(status))) return;
    const customer = await provider.ask((stripe) => stripe.customers.retrieve(customerId));
    if (customer.deleted) await forgetCustomer(pool, accountId, customerId);
  }

  async function readAndRecord(accountId: string, customerId: string): Promise<Found> {
    const found = await readCustomer(deps, accountId, customerId);
    await transaction(pool, async (tx) =>
      record(tx, accountId, changes(await readRecorded(tx, found), found, now())),
    );
    return found;
  }

  /** A change that is pending keeps the discounts that the subscription has now, which codes may have changed since. */
  async function keepDiscounts(id: string): Promise<void> {
    const subscription = await provider.ask((stripe) =>
      stripe.subscriptions.retrieve(id, { expand: ["schedule"] }),
    );
    const { schedule, discounts } = subscription;
    const pending = pendingOf(schedule);
    if (!pending || !isPaidTier(pending.tier) || !schedule || typeof schedule === "string") return;
    const planned = schedule.phases.at(-1)!.discounts.map(({ discount }) => idOf(discount));
    if (planned.toSorted().join() === discounts.map(idOf).toSorted().join()) return;
    const { tier, cadence, seats } = pending;
    await putSchedule({ pool, provider, priceId }, subscription, { tier, cadence, seats }, id);
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

const idOf = (one: string | { id: string } | null) => (typeof one === "string" ? one : (one?.id ?? ""));
