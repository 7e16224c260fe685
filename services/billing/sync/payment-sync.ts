import { RefundChangedSchema } from "../../../proto/gen/berth/billing/v1/events_pb.ts";
import { emit } from "../../kit/events/outbox.ts";
import type { Logger } from "../../kit/log.ts";
import { type Pool, transaction } from "../../kit/postgres/db.ts";
import type { AccountLock } from "../accounts/account-lock.ts";
import { type DisputedPayment, recordDisputes } from "../disputes/record-disputes.ts";
import type { ReadOutcome } from "../due/worker.ts";
import { findInvoiceOwner } from "../invoices/sql.ts";
import { addFailedRefund } from "../refunds/sql.ts";
import { readDisputes } from "../stripe/disputes.ts";
import { type Provider, readIfThere } from "../stripe/provider.ts";
import type { Sync } from "./sync.ts";

type Deps = {
  pool: Pool;
  provider: Provider;
  sync: Sync;
  lock: AccountLock;
  /** The provider's time, in milliseconds. */
  now: () => number;
  log: Logger;
};

type Owner = { accountId: string; subscriptionId: string | null };

/** Syncs the customer of a payment, records its disputes, and reports which of its refunds failed. */
export type SyncPayment = (paymentId: string) => Promise<ReadOutcome>;

/**
 * Returns a function that finds out whose a payment is: refunds and disputes name no customer in every version of the
 * provider's API, but their payment. Its customer is read, its disputes are recorded, and of its refunds those are reported
 * that the bank could not make, each once. A payment for something else is passed over.
 */
export function createPaymentSync(deps: Deps): SyncPayment {
  const { pool, provider, sync, lock, log } = deps;
  return async (paymentId) => {
    const invoice = await readInvoiceOf(provider, paymentId);
    if (!invoice?.customer) return "passed_over";
    const { customer } = invoice;
    const outcome = await sync(typeof customer === "string" ? customer : customer.id);
    const owner = await findInvoiceOwner(pool, invoice.id);
    if (outcome === "passed_over" || !owner) return outcome;
    await lock(owner.accountId, () => readDisputed({ paymentId, invoiceId: invoice.id, ...owner }));
    await reportFailed(paymentId, owner);
  };

  async function readDisputed(payment: DisputedPayment): Promise<void> {
    const disputes = await provider.ask((stripe) => readDisputes(stripe, payment.paymentId));
    if (disputes) return recordDisputes(deps, payment, disputes);
    log.warn(
      {},
      "The key may not read disputes at the payment provider. Add the right Disputes: read to it.",
    );
  }

  async function reportFailed(payment: string, owner: Owner) {
    const { data } = await provider.ask((stripe) =>
      stripe.refunds.list({ payment_intent: payment, limit: 100 }),
    );
    const { accountId, subscriptionId } = owner;
    for (const { id: refundId, amount } of data.filter(({ status }) => status === "failed")) {
      const isNew = await transaction(pool, async (tx) => {
        if ((await addFailedRefund(tx, refundId)) === 0) return false;
        await emit(tx, RefundChangedSchema, accountId, {
          accountId,
          subscriptionId: subscriptionId ?? "",
          status: "failed",
          amountCents: BigInt(amount),
          refundId,
        });
        return true;
      });
      if (isNew) log.error({ accountId, refundId, cents: amount }, "the bank could not make a refund");
    }
  }
}

/** Returns the invoice that a payment pays; undefined for one of something else. */
async function readInvoiceOf(provider: Provider, payment: string) {
  const found = await readIfThere(provider, (stripe) =>
    stripe.invoicePayments.list({
      payment: { type: "payment_intent", payment_intent: payment },
      limit: 1,
      expand: ["data.invoice"],
    }),
  );
  const invoice = found?.data[0]?.invoice;
  return typeof invoice === "object" && !invoice.deleted ? invoice : undefined;
}
