import { CouponNotAppliedSchema } from "../../../proto/gen/berth/billing/v1/events_pb.ts";
import { emit } from "../../kit/events/outbox.ts";
import type { Logger } from "../../kit/log.ts";
import { type Pool, type Tx, transaction } from "../../kit/postgres/db.ts";
import { invalid, refuse } from "../../kit/rpc/errors.ts";
import type { AccountLock } from "../accounts/account-lock.ts";
import { findCustomer } from "../accounts/sql.ts";
import { isStripeError, type Provider } from "../stripe/provider.ts";
import { toCoupon } from "../subscription/mirror.ts";
import { findSubscription, hasPaidInvoice, LIVE, SUBSCRIBED } from "../subscription/sql.ts";
import { endDiscounts, hasDiscount, readSubscribed, recordChanged, setDiscount } from "./discount.ts";
import {
  type CouponRefusal,
  type PlanChoice,
  type PromoCode,
  reachesCompute,
  refusalOf,
} from "./eligibility.ts";
import { findPromoCode, readPromoCode } from "./promo-codes.ts";
import { deletePendingCoupon, findPendingCoupon, noteRefused, putPendingCoupon } from "./sql.ts";

type Deps = { pool: Pool; provider: Provider; lock: AccountLock; now: () => number; log: Logger };

/** Commits what a request changes. */
type Commit<T> = (work: (tx: Tx) => Promise<void>) => Promise<T>;

export type Coupons = ReturnType<typeof createCoupons>;

/** Returns what is done with promo codes (docs/billing.md#promo-codes). All throw 502 payment_provider_unavailable. */
export function createCoupons({ pool, provider, lock, now, log }: Deps) {
  /**
   * Redeems a promo code: on the subscription, or saved for the next one. Throws 404 coupon_not_found, and 422 with the
   * reason. Done again, it changes nothing.
   */
  function redeem<T>(accountId: string, typed: string, commit: Commit<T>): Promise<T> {
    return lock(accountId, async () => {
      const code = await findPromoCode(provider, typed, await findCustomer(pool, accountId));
      if (!code)
        throw refuse(404, "coupon_not_found", "There is no such promo code. Check how it is spelled.");
      const found = await findSubscription(pool, accountId);
      const renews = found && SUBSCRIBED.includes(found.status) && !found.cancelAtPeriodEnd;
      const current = renews ? await readSubscribed(provider, found.id) : undefined;
      if (!found || !current) return save(accountId, code, commit);
      // It may be there already: the answer to a request before was lost.
      const changed = hasDiscount(current, code.id) ? current : await apply(accountId, code, found);
      return commit((tx) => recordChanged(tx, accountId, changed));
    });
  }

  async function save<T>(accountId: string, code: PromoCode, commit: Commit<T>): Promise<T> {
    await requireRedeemable(accountId, code);
    const row = { promotionCodeId: code.id, coupon: toCoupon(code.coupon, code.code) };
    return commit(async (tx) => {
      await putPendingCoupon(tx, accountId, row, new Date(now()));
    });
  }

  async function apply(accountId: string, code: PromoCode, { id, ...plan }: PlanChoice & { id: string }) {
    await requireRedeemable(accountId, code, plan);
    try {
      return await setDiscount(provider, id, code.id, "coupon_expired");
    } catch (error) {
      // Its last redemption went to somebody else meanwhile.
      if (isStripeError(error, "coupon_expired")) throw refused("redemption_limit");
      throw error;
    }
  }

  async function requireRedeemable(accountId: string, code: PromoCode, plan?: PlanChoice): Promise<void> {
    const reason = await refusalFor(accountId, code, plan);
    if (reason) throw refused(reason);
  }

  async function refusalFor(accountId: string, code: PromoCode, plan?: PlanChoice) {
    if (reachesCompute(code.coupon))
      log.warn(
        { coupon: code.coupon.id },
        "a coupon is refused because it would discount compute: restrict it to the products of plans and seats",
      );
    const paidBefore = await hasPaidInvoice(pool, accountId);
    return refusalOf(code, { now: now() / 1_000, plan, paidBefore });
  }

  /** Ends the discount of the subscription and drops the saved code, as far as they are there. */
  function remove(accountId: string): Promise<void> {
    return lock(accountId, async () => {
      const found = await findSubscription(pool, accountId);
      const changed =
        found && LIVE.includes(found.status) ? await endDiscounts(provider, found.id) : undefined;
      await transaction(pool, async (tx) => {
        if (changed) await recordChanged(tx, accountId, changed);
        await deletePendingCoupon(tx, accountId);
      });
    });
  }

  /**
   * Returns the id of the saved code if it can be spent on a plan. If not, it is kept, and CouponNotApplied is sent, once
   * for a plan and reason. To be called under the account's lock.
   */
  async function findSpendable(accountId: string, plan: PlanChoice): Promise<string | undefined> {
    const pending = await findPendingCoupon(pool, accountId);
    if (!pending) return undefined;
    const found = await readPromoCode(provider, pending.promotionCodeId);
    const reason = found ? await refusalFor(accountId, found, plan) : "expired";
    if (!reason) return pending.promotionCodeId;
    const { code } = pending.coupon;
    await transaction(pool, async (tx) => {
      if ((await noteRefused(tx, accountId, `${plan.tier} ${plan.cadence} ${reason}`)) > 0)
        await emit(tx, CouponNotAppliedSchema, accountId, { accountId, code, reason });
    });
    return undefined;
  }

  return { redeem, remove, findSpendable };
}

const REFUSALS: Record<CouponRefusal, string> = {
  expired: "This promo code is no longer valid.",
  redemption_limit: "This promo code was redeemed as often as it can be.",
  plan_restricted: "This promo code is for another plan.",
  not_eligible: "This promo code is not for this account.",
};

const refused = (reason: CouponRefusal) => invalid("code", reason, REFUSALS[reason]);
