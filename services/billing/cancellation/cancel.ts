import { audit } from "../../kit/events/audit.ts";
import { causeOf } from "../../kit/failures.ts";
import type { Logger } from "../../kit/log.ts";
import { type Pool, transaction } from "../../kit/postgres/db.ts";
import type { Caller } from "../../kit/rpc/caller-token.ts";
import { isRefusal } from "../../kit/rpc/refusals.ts";
import type { AccountLock } from "../accounts/account-lock.ts";
import { listRefunds } from "../refunds/sql.ts";
import { type Provider, unavailable } from "../stripe/provider.ts";
import { noSubscription } from "../subscription/refusals.ts";
import { LIVE } from "../subscription/statuses.ts";
import { type Asked, askFor } from "./asked.ts";
import { canceling, endingOf, requireCancelable } from "./cancelable.ts";
import { type Forecast, forecastAtPeriodEnd } from "./forecast.ts";
import { atPeriodEnd, type CancelResult, toEnding, toResult } from "./result.ts";
import { emptySettlement } from "./settlement.ts";
import * as sql from "./sql.ts";
import { cancelAtPeriodEnd } from "./steps/end-subscription.ts";
import { reportRefund } from "./steps/report-refund.ts";
import type { ResumeCancellation } from "./steps/resume-cancellation.ts";

type Deps = {
  pool: Pool;
  provider: Provider;
  lock: AccountLock;
  /** Brings what is recorded of a customer in line with the provider, under the lock of its account. */
  syncLocked: (accountId: string, customerId: string) => Promise<void>;
  resumeCancellation: ResumeCancellation;
  log: Logger;
};

type Who = { caller: Caller; requestId: string };

/**
 * Cancels the account's subscription (docs/billing.md#canceling). Throws 404 subscription_not_found, 409
 * subscription_canceling, and 502 payment_provider_unavailable as long as the subscription has not ended for certain.
 */
export type Cancel = (accountId: string, who: Who) => Promise<CancelResult>;

export function createCancel({ pool, provider, lock, syncLocked, resumeCancellation, log }: Deps): Cancel {
  return async (accountId, who) => {
    const { id } = await requireCancelable(pool, accountId);
    return lock(accountId, async () => {
      const asked = await askFor(provider, accountId, id);
      const { mirrored: current, metered } = asked;
      if (!current || !LIVE.includes(current.status) || current.cancelAtPeriodEnd) {
        // It ended, or was canceled, and the webhooks are late.
        await syncLocked(accountId, metered.customerId);
        throw current?.cancelAtPeriodEnd && LIVE.includes(current.status) ? canceling() : noSubscription();
      }
      const ending = endingOf(current);
      if (ending !== "at_period_end") return endNow({ subscriptionId: id, accountId, kind: ending }, who);
      const forecast = await forecastAtPeriodEnd({ pool, provider }, asked).catch(unforeseen);
      await endAtPeriodEnd(asked, who);
      const outcome = { ...forecast, ...atPeriodEnd(current), asOf: asked.at };
      return { status: "canceled", ...toEnding(outcome) };
    });
  };

  async function endAtPeriodEnd({ metered, subscription }: Asked, who: Who): Promise<void> {
    const { subscriptionId, accountId, customerId } = metered;
    // First: no process that is killed leaves a cancellation of which nobody knows who asked for it.
    await transaction(pool, (tx) => auditCancel(tx, who, accountId, subscriptionId));
    await provider.ask((stripe) => cancelAtPeriodEnd(stripe, subscription));
    await syncLocked(accountId, customerId).catch((error) =>
      log.warn({ subscription: subscriptionId, cause: causeOf(error) }, "a cancellation is recorded later"),
    );
  }

  async function endNow(ask: sql.CancellationRequest, who: Who): Promise<CancelResult> {
    const { accountId, subscriptionId } = ask;
    const cancellation = await transaction(pool, async (tx) => {
      const asked = await sql.requestCancellation(tx, ask);
      if (asked) await auditCancel(tx, who, accountId, subscriptionId);
      return asked;
    });
    if (!cancellation) throw canceling();
    const settlement = emptySettlement();
    await resumeCancellation(cancellation, settlement).catch((error) => recordUncertain(cancellation, error));
    const reached = await sql.findCancellation(pool, subscriptionId);
    return toResult(reached!, settlement, await listRefunds(pool, subscriptionId));
  }

  /**
   * Records that a cancellation was interrupted. A subscription that has ended stays canceled, and its refund is made
   * later; whether one has ended that perhaps has not is found out later: throws 502.
   */
  async function recordUncertain(cancellation: sql.Cancellation, error: unknown): Promise<void> {
    const { subscriptionId } = cancellation;
    const isUncertain = await transaction(pool, async (tx) => {
      await sql.retryCancellationSoon(tx, subscriptionId);
      if ((await sql.moveCancellation(tx, subscriptionId, "asked", "uncertain")) > 0) return true;
      await reportRefund(tx, cancellation, "under_review");
      return false;
    });
    if (isUncertain) throw isRefusal(error) ? unavailable(UNCERTAIN) : error;
    log.warn({ subscription: subscriptionId, cause: causeOf(error) }, "a refund waits");
  }
}

/** That the provider does not say what the end charges does not keep a plan from ending. Throws any other error. */
function unforeseen(error: unknown): Forecast {
  if (!isRefusal(error)) throw error;
  return { ...emptySettlement(), refunds: [], underReview: false, warnings: [UNFORESEEN] };
}

const UNFORESEEN =
  "What is still charged is not known: the payment provider did not say. It is compute that runs until the end, and members who were added.";

const UNCERTAIN =
  "The payment provider does not answer. Read the subscription before you cancel again: it may have ended.";

const auditCancel = (tx: Parameters<typeof audit>[0], who: Who, accountId: string, target: string) =>
  audit(tx, who, { service: "billing", accountId, action: "subscription.cancel", target });
