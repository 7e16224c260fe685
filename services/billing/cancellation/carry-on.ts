import { timestampDate } from "@bufbuild/protobuf/wkt";
import { RefundChangedSchema } from "../../../proto/gen/berth/billing/v1/events_pb.ts";
import { emit } from "../../kit/events/outbox.ts";
import type { Logger } from "../../kit/log.ts";
import { type Pool, type Tx, transaction } from "../../kit/postgres/db.ts";
import { reportBeforeEnd } from "../metering/report-periods.ts";
import { isRefused, type Provider } from "../stripe/provider.ts";
import { endOf, endSubscription } from "./end-subscription.ts";
import { issueRefund } from "./issue-refund.ts";
import { readPaidInvoices } from "./paid-invoices.ts";
import { annualRefunds, cashOf, fullRefunds, type PaidInvoice, type Refund } from "./refund.ts";
import { settleInvoices } from "./settle-invoices.ts";
import * as sql from "./sql.ts";

/** A refund of a subscription that is younger waits for staff. */
export const REVIEW_SECONDS = 14 * 86_400;

type Deps = { pool: Pool; provider: Provider; log: Logger; clock: () => number };

/**
 * Carries a cancellation on as far as it goes, under the account's lock. Each step is recorded before the next begins,
 * and each may be done again: so whatever is killed, the next one goes on where it was. Throws 502
 * payment_provider_unavailable.
 */
export type CarryOn = (cancellation: sql.Cancellation) => Promise<void>;

export function createCarryOn({ pool, provider, log, clock }: Deps): CarryOn {
  return async (cancellation) => {
    let now: sql.Cancellation | undefined = cancellation;
    if (now.step === "asked") now = await end(now);
    if (now?.step === "ended") await planRefund(now);
    await makeRefunds(cancellation);
  };

  async function end({ subscriptionId, kind }: sql.Cancellation): Promise<sql.Cancellation | undefined> {
    // The end makes the last invoice of compute final.
    if (kind === "annual") await reportBeforeEnd({ pool, provider, now: clock }, subscriptionId);
    const ended = await provider.ask((stripe) => endSubscription(stripe, subscriptionId, kind));
    return sql.setEnded(pool, subscriptionId, new Date(endOf(ended) * 1_000));
  }

  /** Settles what is open, and records what is to be refunded before anything is. */
  async function planRefund(cancellation: sql.Cancellation): Promise<void> {
    const { subscriptionId, kind, released } = cancellation;
    const at = timestampDate(cancellation.endedAt!).getTime() / 1_000;
    await settleInvoices({ pool, provider, log }, subscriptionId, kind);
    const { refunds, isYoung } = await provider.ask(async (stripe) => {
      const subscription = await stripe.subscriptions.retrieve(subscriptionId);
      const paid = kind === "unpaid" ? [] : await readPaidInvoices(stripe, subscription);
      return { refunds: refundsFor(kind, paid, at), isYoung: isInReview(subscription.created, at) };
    });
    const waits = kind === "annual" && isYoung && !released && refunds.length > 0;
    await transaction(pool, async (tx) => {
      await sql.planRefunds(tx, subscriptionId, refunds);
      await sql.moveCancellation(tx, subscriptionId, "ended", waits ? "review" : "refunding");
      if (waits) await reportRefund(tx, cancellation, "under_review");
    });
  }

  async function makeRefunds(cancellation: sql.Cancellation): Promise<void> {
    const { subscriptionId } = cancellation;
    if ((await sql.findCancellation(pool, subscriptionId))?.step !== "refunding") return;
    for (const refund of await sql.listRefunds(pool, subscriptionId))
      if (refund.creditNoteId === null) await makeRefund(subscriptionId, refund);
    await transaction(pool, async (tx) => {
      await sql.moveCancellation(tx, subscriptionId, "refunding", "done");
      await reportRefund(tx, cancellation, "refunded");
    });
  }

  async function makeRefund(subscriptionId: string, refund: sql.RefundRow): Promise<void> {
    try {
      const note = await issueRefund({ pool, provider }, subscriptionId, refund);
      await sql.setRefundMade(pool, subscriptionId, refund.invoiceId, note);
    } catch (error) {
      // What can be given back may be less by now.
      if (isRefused(error)) await sql.moveCancellation(pool, subscriptionId, "refunding", "ended");
      throw error;
    }
  }
}

/** Returns what a subscription that ended at `at` gives back. */
function refundsFor(kind: sql.CancellationKind, paid: PaidInvoice[], at: number): Refund[] {
  return kind === "duplicate" ? fullRefunds(paid) : annualRefunds(paid, at);
}

/** Whether the refund of a subscription from `created` that ended at `at` waits for staff. Seconds since 1970. */
export function isInReview(created: number, at: number): boolean {
  return at - created < REVIEW_SECONDS;
}

/** Reports what became of a refund, once; nothing when there is none. */
export async function reportRefund(
  tx: Tx,
  { accountId, subscriptionId }: Pick<sql.Cancellation, "accountId" | "subscriptionId">,
  status: "refunded" | "under_review" | "denied",
): Promise<void> {
  const amount = cashOf(await sql.listRefunds(tx, subscriptionId));
  if (amount === 0 || (await sql.setRefundStatus(tx, subscriptionId, status)) === 0) return;
  await emit(tx, RefundChangedSchema, accountId, {
    accountId,
    subscriptionId,
    status,
    amountCents: BigInt(amount),
  });
}
