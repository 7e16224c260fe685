import type Stripe from "stripe";
import { audit } from "../../kit/events/audit.ts";
import type { Logger } from "../../kit/log.ts";
import { type Pool, transaction } from "../../kit/postgres/db.ts";
import type { Caller } from "../../kit/rpc/caller-token.ts";
import { causeOf, isRefusal } from "../../kit/rpc/errors.ts";
import type { AccountLock } from "../accounts/account-lock.ts";
import { type Provider, unavailable } from "../stripe/provider.ts";
import { mirrorSubscription } from "../subscription/mirror.ts";
import { noSubscription } from "../subscription/refusals.ts";
import { LIVE } from "../subscription/sql.ts";
import type { SyncLocked } from "../subscription/sync.ts";
import { canceling, endingOf, requireCancelable } from "./cancelable.ts";
import { type CarryOn, reportRefund } from "./carry-on.ts";
import { stopRenewal } from "./end-subscription.ts";
import { type CancelResult, lapsesAt, toResult } from "./result.ts";
import * as sql from "./sql.ts";

type Deps = {
  pool: Pool;
  provider: Provider;
  lock: AccountLock;
  syncLocked: SyncLocked;
  carryOn: CarryOn;
  log: Logger;
};

type Who = { caller: Caller; requestId: string };

/**
 * Cancels the account's subscription (docs/billing.md#canceling). Throws 404 subscription_not_found, 409
 * subscription_canceling, and 502 payment_provider_unavailable as long as the subscription has not ended for certain.
 */
export type Cancel = (accountId: string, who: Who) => Promise<CancelResult>;

export function createCancel({ pool, provider, lock, syncLocked, carryOn, log }: Deps): Cancel {
  return async (accountId, who) => {
    const { id } = await requireCancelable(pool, accountId);
    return lock(accountId, async () => {
      const found = await provider.ask((stripe) => stripe.subscriptions.retrieve(id));
      const current = mirrorSubscription(accountId, found);
      if (!current || !LIVE.includes(current.status) || current.cancelAtPeriodEnd) {
        // It ended, or was canceled, and the webhooks are late.
        await syncLocked(accountId, customerOf(found));
        throw current?.cancelAtPeriodEnd && LIVE.includes(current.status) ? canceling() : noSubscription();
      }
      const ending = endingOf(current);
      if (ending !== "lapse") return endNow({ subscriptionId: id, accountId, kind: ending }, who);
      await lapse(found, accountId, who);
      return { status: "canceled", ...lapsesAt(current.currentPeriodEnd) };
    });
  };

  async function lapse(subscription: Stripe.Subscription, accountId: string, who: Who): Promise<void> {
    await provider.ask((stripe) => stopRenewal(stripe, subscription.id));
    await transaction(pool, (tx) => auditCancel(tx, who, accountId, subscription.id));
    await syncLocked(accountId, customerOf(subscription)).catch((error) =>
      log.warn({ subscription: subscription.id, cause: causeOf(error) }, "a cancellation is recorded later"),
    );
  }

  async function endNow(ask: sql.Ask, who: Who): Promise<CancelResult> {
    const { accountId, subscriptionId } = ask;
    const cancellation = await transaction(pool, async (tx) => {
      const asked = await sql.askCancellation(tx, ask);
      if (asked) await auditCancel(tx, who, accountId, subscriptionId);
      return asked;
    });
    if (!cancellation) throw canceling();
    await carryOn(cancellation).catch((error) => leave(cancellation, error));
    const reached = await sql.findCancellation(pool, subscriptionId);
    return toResult(reached!, await sql.listRefunds(pool, subscriptionId));
  }

  /** What has ended stays canceled, and is carried on later; what perhaps has not is as it was before. */
  async function leave(cancellation: sql.Cancellation, error: unknown): Promise<void> {
    const { subscriptionId } = cancellation;
    const isOpen = await transaction(pool, async (tx) => {
      await sql.hastenCancellation(tx, subscriptionId);
      if ((await sql.moveCancellation(tx, subscriptionId, "asked", "uncertain")) > 0) return true;
      await reportRefund(tx, cancellation, "under_review");
      return false;
    });
    if (isOpen) throw isRefusal(error) ? unavailable(UNCERTAIN) : error;
    log.warn({ subscription: subscriptionId, cause: causeOf(error) }, "a refund waits");
  }
}

const UNCERTAIN =
  "The payment provider does not answer. Read the subscription before you cancel again: it may have ended.";

const auditCancel = (tx: Parameters<typeof audit>[0], who: Who, accountId: string, target: string) =>
  audit(tx, who, { service: "billing", accountId, action: "subscription.cancel", target });

const customerOf = ({ customer }: Stripe.Subscription) =>
  typeof customer === "string" ? customer : customer.id;
