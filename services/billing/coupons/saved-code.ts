import type Stripe from "stripe";
import { CouponNotAppliedSchema } from "../../../proto/gen/berth/billing/v1/events_pb.ts";
import { audit } from "../../kit/events/audit.ts";
import { emit } from "../../kit/events/outbox.ts";
import type { Logger } from "../../kit/log.ts";
import { type Pool, type Tx, transaction } from "../../kit/postgres/db.ts";
import type { Caller } from "../../kit/rpc/caller-token.ts";
import { invalid, refuse } from "../../kit/rpc/refusals.ts";
import type { AccountLock } from "../accounts/account-lock.ts";
import { findCustomer } from "../accounts/sql.ts";
import { hasPaidInvoice } from "../invoices/sql.ts";
import { termMonths } from "../pricing/terms.ts";
import { isStripeError, type Provider } from "../stripe/provider.ts";
import { type Coupon, mirrorSubscription, toCoupon } from "../subscription/mirror-subscription.ts";
import { findSubscription } from "../subscription/sql.ts";
import { LIVE, SUBSCRIBED } from "../subscription/statuses.ts";
import {
  type DiscountSource,
  endDiscounts,
  hasDiscount,
  readSubscribed,
  recordChanged,
  setDiscount,
} from "./discount.ts";
import {
  type CouponRefusal,
  type PlanChoice,
  type PromoCode,
  reachesCompute,
  refusalOf,
  unfitness,
} from "./eligibility.ts";
import { findPromoCode, readPromoCode } from "./promo-codes.ts";
import { EXPAND_USES, usesOf } from "./redemptions.ts";
import { ensureRestCoupon } from "./rest-coupon.ts";
import {
  deletePendingCoupon,
  findPendingCoupon,
  findRedemption,
  putPendingCoupon,
  recordCouponRefusal,
} from "./sql.ts";
import { type DueFrom, restOf } from "./term.ts";

type Deps = { pool: Pool; provider: Provider; lock: AccountLock; now: () => number; log: Logger };

/** Commits what a request changes. */
type Commit<T> = (work: (tx: Tx) => Promise<void>) => Promise<T>;

type Who = { caller: Caller; requestId: string };

/** A saved code that applies to a plan, and what its discount is made of. */
export type Applicable = { promotionCode: string; source: DiscountSource };

/** A saved code: what its discount is made of, and for how long, or why it does not apply. */
export type SavedCode = { coupon: Coupon } & (
  | (Applicable & { terms: Pick<Stripe.Coupon, "duration" | "duration_in_months"> })
  | { reason: CouponRefusal }
);

export type Coupons = ReturnType<typeof createCoupons>;

/** Returns what is done with promo codes (docs/billing.md#promo-codes). All throw 502 payment_provider_unavailable. */
export function createCoupons({ pool, provider, lock, now, log }: Deps) {
  const seconds = () => Math.floor(now() / 1_000);

  /**
   * Redeems a promo code: on the subscription, or saved for the next one. Throws 404 coupon_not_found, and 422 with the
   * reason. Done again, it changes nothing.
   */
  function redeem<T>(accountId: string, typed: string, who: Who, commit: Commit<T>): Promise<T> {
    return lock(accountId, async () => {
      const code = await findPromoCode(provider, typed, await findCustomer(pool, accountId));
      if (!code)
        throw refuse(404, "coupon_not_found", "There is no such promo code. Check how it is spelled.");
      const found = await findSubscription(pool, accountId);
      const renews = found && SUBSCRIBED.includes(found.status) && !found.cancelAtPeriodEnd;
      const current = renews ? await readSubscribed(provider, found.id) : undefined;
      const change = current ? await apply(accountId, code, current, who) : await save(accountId, code, who);
      return commit(async (tx) => void (await change(tx)));
    });
  }

  /** Returns the change that saves a code for the account's next subscription. */
  async function save(accountId: string, code: PromoCode, who: Who): Promise<(tx: Tx) => Promise<unknown>> {
    await requireSource(accountId, code);
    const isKnown = (await findPendingCoupon(pool, accountId))?.promotionCodeId === code.id;
    const row = { promotionCodeId: code.id, coupon: toCoupon(code.coupon, code.code) };
    return async (tx) => {
      await putPendingCoupon(tx, accountId, row, new Date(now()));
      if (!isKnown) await auditCode(tx, who, accountId, "coupon.redeem", code.code);
    };
  }

  /** Redeems a code on a subscription. Returns the change that records it. */
  async function apply(accountId: string, code: PromoCode, current: Stripe.Subscription, who: Who) {
    // It may be there already: the answer to a request before was lost.
    const changed = hasDiscount(current, code.id)
      ? current
      : await addDiscount(accountId, code, current, who);
    return (tx: Tx) => recordChanged(tx, accountId, changed);
  }

  async function addDiscount(accountId: string, code: PromoCode, current: Stripe.Subscription, who: Who) {
    const { tier, cadence, currentPeriodEnd } = mirrorSubscription(accountId, current)!;
    const next = Math.floor(currentPeriodEnd.getTime() / 1_000);
    const due = { anchor: current.billing_cycle_anchor, next };
    const source = await requireSource(accountId, code, { tier, cadence }, due);
    await auditFirst(who, accountId, "coupon.redeem", code.code);
    try {
      return await setDiscount(provider, current.id, source, "coupon_expired");
    } catch (error) {
      // Its last redemption went to somebody else meanwhile.
      if (isStripeError(error, "coupon_expired")) throw refused("redemption_limit");
      throw error;
    }
  }

  async function requireSource(accountId: string, code: PromoCode, plan?: PlanChoice, due?: DueFrom) {
    const source = await findSource(accountId, code, plan, due);
    if (typeof source === "string") throw refused(source);
    return source;
  }

  /**
   * Returns what the discount of a code is made of for an account whose payments for a plan are due then, by default from
   * now on, or why it cannot be redeemed.
   */
  async function findSource(
    accountId: string,
    code: PromoCode,
    plan?: PlanChoice,
    due: DueFrom = { anchor: seconds(), next: seconds() },
  ): Promise<DiscountSource | CouponRefusal> {
    if (reachesCompute(code.coupon))
      log.warn(
        { coupon: code.coupon.id },
        "a coupon is refused because it would discount compute: restrict it to the products of plans and seats",
      );
    const redeemed = await findRedemption(pool, accountId, code.id);
    if (!redeemed) {
      const paidBefore = await hasPaidInvoice(pool, accountId);
      const { installation } = provider;
      const refusal = refusalOf(code, { now: seconds(), plan, paidBefore, installation });
      return refusal ?? { promotion_code: code.id };
    }
    const payments = { ...due, months: plan ? termMonths(plan.cadence) : 1 };
    const used = redeemed.used || (await isUsed(accountId, code));
    const rest = restOf(code, { ...redeemed, used }, seconds(), payments);
    if (rest === undefined) return "redemption_limit";
    const refusal = unfitness(code, plan, provider.installation);
    return refusal ?? { coupon: await ensureRestCoupon(provider, code, rest) };
  }

  /** Whether the provider has an invoice that a code reduced: its webhook may be late. */
  async function isUsed(accountId: string, { id }: PromoCode): Promise<boolean> {
    const customer = await findCustomer(pool, accountId);
    if (customer === undefined) return false;
    const { data } = await provider.ask((stripe) =>
      stripe.invoices.list({ customer, limit: 100, expand: EXPAND_USES }),
    );
    return data.flatMap(usesOf).some(({ promotionCodeId }) => promotionCodeId === id);
  }

  /** Ends the discount of the subscription and drops the saved code, as far as they are there. */
  function remove(accountId: string, who: Who): Promise<void> {
    return lock(accountId, async () => {
      const found = await findSubscription(pool, accountId);
      const isLive = found && LIVE.includes(found.status);
      const shown = isLive ? found.coupon?.code : undefined;
      if (shown !== undefined) await auditFirst(who, accountId, "coupon.remove", shown);
      const changed = isLive ? await endDiscounts(provider, found.id) : undefined;
      await transaction(pool, async (tx) => {
        const saved = await findPendingCoupon(tx, accountId);
        if (changed) await recordChanged(tx, accountId, changed);
        await deletePendingCoupon(tx, accountId);
        if (saved) await auditCode(tx, who, accountId, "coupon.remove", saved.coupon.code);
      });
    });
  }

  /** Before the provider is asked: no process that is killed leaves a change of which nobody knows who asked for it. */
  const auditFirst = (who: Who, accountId: string, action: string, code: string) =>
    transaction(pool, (tx) => auditCode(tx, who, accountId, action, code));

  /** Returns the saved code, and why it does not apply to a plan, if so; undefined when none is saved. */
  async function checkSaved(accountId: string, plan: PlanChoice): Promise<SavedCode | undefined> {
    const pending = await findPendingCoupon(pool, accountId);
    if (!pending) return undefined;
    const { promotionCodeId: promotionCode, coupon } = pending;
    const found = await readPromoCode(provider, promotionCode);
    const source = found ? await findSource(accountId, found, plan) : "expired";
    if (typeof source === "string" || !found) return { coupon, reason: source as CouponRefusal };
    const terms =
      "coupon" in source
        ? await provider.ask((stripe) => stripe.coupons.retrieve(source.coupon))
        : found.coupon;
    return { coupon, promotionCode, source, terms };
  }

  /**
   * Returns the saved code if it applies to a plan. If not, it is kept, and CouponNotApplied is sent, once for a plan
   * and reason. To be called under the account's lock.
   */
  async function findApplicable(accountId: string, plan: PlanChoice): Promise<Applicable | undefined> {
    const saved = await checkSaved(accountId, plan);
    if (!saved) return undefined;
    if ("source" in saved) return saved;
    const { reason } = saved;
    const { code } = saved.coupon;
    await transaction(pool, async (tx) => {
      if ((await recordCouponRefusal(tx, accountId, `${plan.tier} ${plan.cadence} ${reason}`)) > 0)
        await emit(tx, CouponNotAppliedSchema, accountId, { accountId, code, reason });
    });
    return undefined;
  }

  return { redeem, remove, checkSaved, findApplicable };
}

const auditCode = (tx: Tx, who: Who, accountId: string, action: string, code: string) =>
  audit(tx, who, { service: "billing", accountId, action, target: code });

const REFUSALS: Record<CouponRefusal, string> = {
  expired: "This promo code is no longer valid.",
  redemption_limit: "This promo code was redeemed as often as it can be, by this account or by all.",
  plan_restricted: "This promo code is for another plan.",
  not_eligible: "This promo code is not for this account.",
};

const refused = (reason: CouponRefusal) => invalid("code", reason, REFUSALS[reason]);
