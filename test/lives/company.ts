import { createAccountLock } from "../../services/billing/accounts/account-lock.ts";
import { findAccount } from "../../services/billing/accounts/sql.ts";
import { createCancel } from "../../services/billing/cancellation/cancel.ts";
import { previewCancellation } from "../../services/billing/cancellation/preview.ts";
import { decideReview, findCancellation } from "../../services/billing/cancellation/sql.ts";
import { createResumeCancellation } from "../../services/billing/cancellation/steps/resume-cancellation.ts";
import { createCheckout } from "../../services/billing/checkout/open-checkout.ts";
import { createPreviewCheckout } from "../../services/billing/checkout/preview-checkout.ts";
import { createCoupons } from "../../services/billing/coupons/saved-code.ts";
import { putSeatCheck } from "../../services/billing/due/seat-checks-sql.ts";
import { compareInvoices } from "../../services/billing/metering/compare-invoices.ts";
import { reportPeriods } from "../../services/billing/metering/report-periods.ts";
import { createChangePlan } from "../../services/billing/plan-change/change-plan.ts";
import { createMakeChange } from "../../services/billing/plan-change/make-change.ts";
import { findOpenChange } from "../../services/billing/plan-change/sql.ts";
import { createPriceId } from "../../services/billing/pricing/price-ids.ts";
import { seed } from "../../services/billing/pricing/seed.ts";
import { createAdjustSeats } from "../../services/billing/seats/adjust-seats.ts";
import { createProvider, isRefused, type Provider } from "../../services/billing/stripe/provider.ts";
import { createSync } from "../../services/billing/sync/sync.ts";
import { freezePeriods } from "../../services/billing/usage/closing/freeze.ts";
import { owedNow } from "../../services/billing/usage/closing/owed.ts";
import { type ReportedUsage, recordUsage } from "../../services/billing/usage/ledger/record-usage.ts";
import type { TierOf } from "../../services/billing/usage/read-usage.ts";
import { createLog } from "../../services/kit/log.ts";
import { createPool, type Pool, transaction } from "../../services/kit/postgres/db.ts";
import { migratedDatabase } from "../../services/kit/testing/testing.ts";
import { testStripe } from "../support/servers/stripe.ts";

/** What a process that was killed throws: nothing that it does afterwards has an effect. */
export class Killed extends Error {
  override name = "Killed";
}

/** Ends a process between two of its requests to the provider: then it reaches neither the provider nor the database. */
function createPower(pool: Pool, provider: Provider) {
  let left = Number.POSITIVE_INFINITY;
  const use = () => {
    left--;
    if (left <= 0) throw new Killed();
  };
  // A statement of its own takes its connection with a callback.
  const connect = pool.connect.bind(pool) as (...args: unknown[]) => unknown;
  const query = pool.query.bind(pool) as (...args: unknown[]) => unknown;
  const alive =
    (work: typeof connect) =>
    (...args: unknown[]) =>
      left > 0 ? work(...args) : Promise.reject(new Killed());
  Object.assign(pool, {
    query: alive(query),
    connect: (...args: unknown[]) => (args.length > 0 ? connect(...args) : alive(connect)()),
  });
  const ask: Provider["ask"] = async (work, ...expected) => {
    use();
    const answer = await provider.ask(work, ...expected);
    use();
    return answer;
  };
  return {
    provider: { ...provider, ask },
    /** Kills the process at its nth request or answer from now on. */
    killAt: (n: number) => {
      left = n;
    },
    restart: () => {
      left = Number.POSITIVE_INFINITY;
    },
  };
}

export type Company = Awaited<ReturnType<typeof openCompany>>;

/**
 * Billing with its database and a simulator of Stripe whose clock, from `began` (ms), stands still unless it is moved. What its tasks do all
 * the time, `work` does when it is told to: so a life of two years takes seconds, and is the same each time.
 */
export async function openCompany(began: number) {
  const database = await migratedDatabase();
  const stripe = await testStripe({ realTime: () => began });
  const errors: string[] = [];
  const log = createLog("billing", "error", (line) => void errors.push(line));
  const pool = createPool(database.url("billing"));
  const locks = createPool(database.url("billing"));
  const plain = createProvider({ stripeKey: stripe.key, stripeUrl: stripe.url }, log);
  // Prices can be sold with taxes and without them.
  await seed({ ...plain, addsTax: true });
  for (const country of ["DE", "CH"] as const)
    await stripe.stripe.tax.registrations.create({
      ...{ country, active_from: "now" },
      country_options: { [country.toLowerCase()]: { type: "standard" } },
    });
  const power = createPower(pool, plain);
  const { provider } = power;
  const now = () => stripe.clock.now() * 1_000;
  const lock = createAccountLock(locks);
  const priceId = createPriceId(provider);
  const members = new Map<string, number>();
  const readMembers = async (accountId: string) => ({
    handle: "shop",
    email: "ada@example.com",
    count: members.get(accountId) ?? 1,
  });
  const adjustSeats = createAdjustSeats({ pool, provider, priceId, readMembers });
  const { sync, syncLocked } = createSync({ pool, provider, lock, priceId, readMembers, adjustSeats, now });
  const resumeCancellation = createResumeCancellation({ pool, provider, log });
  const cancel = createCancel({ pool, provider, lock, syncLocked, resumeCancellation, log });
  const makeChange = createMakeChange({ pool, provider, priceId });
  const coupons = createCoupons({ pool, provider, lock, now, log });
  const pages = { subscribed: () => "https://shop.test/", notSubscribed: () => "https://shop.test/" };
  const checkout = { pool, provider, lock, priceId, readMembers, coupons, pages, now };
  const tierOf: TierOf = async (db, accountId) => (await findAccount(db, accountId)).tier ?? "free";
  const { signal } = new AbortController();

  return {
    stripe: stripe.stripe,
    clock: stripe.clock,
    url: stripe.url,
    pool,
    power,
    sync,
    coupons,
    cancel,
    previewCancel: (accountId: string) => previewCancellation({ pool, provider }, accountId),
    ...createChangePlan({
      ...{ pool, provider, lock, priceId, readMembers, makeChange, syncLocked, log },
      plans: {
        defaultTier: "free",
        planQuotas: "on",
        planOpenPorts: {},
        planSizes: {},
        planStorage: {},
        planBackupDays: {},
      },
    }),
    openCheckout: createCheckout(checkout),
    previewCheckout: createPreviewCheckout({
      ...checkout,
      findOwed: (accountId) => owedNow(pool, accountId, stripe.clock.now()),
    }),
    /** Says whether taxes are added to what is sold from now on. */
    setTaxes: (areOn: boolean) => Object.assign(provider, { addsTax: areOn }),
    /** Says how many members an account has. */
    setMembers: async (accountId: string, count: number) => {
      members.set(accountId, count);
      await putSeatCheck(pool, accountId);
    },
    /** Records what the deployer reports. */
    report: (event: ReportedUsage) => transaction(pool, (tx) => recordUsage(tx, event, now())),
    /** Does what the tasks of billing do at this time. */
    async work(): Promise<void> {
      await freezePeriods({ pool, log, tierOf, now }, signal);
      await reportPeriods({ pool, provider, log, now }, signal);
      await compareInvoices({ pool, log, now });
    },
    /** Resumes cancellations and changes of plans that were interrupted. */
    async resume(): Promise<void> {
      const changes = await pool.query<{ id: string; account: string }>(
        `select subscription_id as id, account_id as account from plan_changes where step in ('asked', 'uncertain')`,
      );
      for (const { id, account } of changes.rows)
        await lock(account, async () => makeChange((await findOpenChange(pool, id))!)).catch((error) => {
          // A card that declines ends a change, as an answer of the provider does.
          if (!isRefused(error)) throw error;
        });
      const { rows } = await pool.query<{ id: string; account: string }>(
        `select subscription_id as id, account_id as account from cancellations
         where step in ('asked', 'uncertain', 'ended', 'refunding')`,
      );
      for (const { id, account } of rows)
        await lock(account, async () => resumeCancellation((await findCancellation(pool, id))!));
    },
    /** Decides about a refund that waits for staff. Returns whether one waited. */
    decide: async (subscriptionId: string, to: "ended" | "denied") =>
      (await transaction(pool, (tx) => decideReview(tx, subscriptionId, to))) !== undefined,
    /** What billing logged as errors since the last call. */
    errors: () => errors.splice(0),
    close: async () => {
      await Promise.all([pool.end(), locks.end(), stripe.stop()]);
      await database.drop();
    },
  };
}
