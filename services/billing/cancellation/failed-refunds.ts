import { RefundChangedSchema } from "../../../proto/gen/berth/billing/v1/events_pb.ts";
import { emit } from "../../kit/events/outbox.ts";
import type { Logger } from "../../kit/log.ts";
import { type Pool, transaction } from "../../kit/postgres/db.ts";
import { type Provider, readIfThere } from "../stripe/provider.ts";
import { findInvoiceOwner } from "../subscription/sql.ts";
import type { Sync } from "../subscription/sync.ts";
import { addFailedRefund } from "./sql.ts";

type Deps = { pool: Pool; provider: Provider; sync: Sync; log: Logger };

const isPayment = (id: string) => id.startsWith("pi_");

/**
 * Returns `sync` for payments too: refunds and disputes name no customer in every version of the provider's API, but
 * their payment. Its customer is read, and of its refunds those are reported that the bank could not make, each once.
 */
export function createPaymentSync({ pool, provider, sync, log }: Deps): Sync {
  return async (id) => {
    if (!isPayment(id)) return sync(id);
    const invoice = await readInvoiceOf(provider, id);
    if (!invoice?.customer) return;
    await sync(typeof invoice.customer === "string" ? invoice.customer : invoice.customer.id);
    const owner = await findInvoiceOwner(pool, invoice.id);
    if (owner) await reportFailed(id, owner);
  };

  async function reportFailed(payment: string, owner: { accountId: string; subscriptionId: string | null }) {
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
