import type Stripe from "stripe";
import type { Logger } from "../../kit/log.ts";
import type { Pool } from "../../kit/postgres/db.ts";
import { makeOnce } from "../stripe/make-once.ts";
import { isRefused, type Provider } from "../stripe/provider.ts";
import type { CancellationKind } from "./sql.ts";

type Deps = { pool: Pool; provider: Provider; log: Logger };

/**
 * Settles the invoices that a subscription left open: those of an annual one, for compute, are paid, because the provider
 * collects nothing by itself from then on; of others nothing is owed. Done again, it changes nothing.
 */
export async function settleInvoices(
  deps: Deps,
  subscription: string,
  kind: CancellationKind,
): Promise<void> {
  const { provider } = deps;
  const { data } = await provider.ask((stripe) => stripe.invoices.list({ subscription, limit: 100 }));
  for (const { id, status } of data) {
    if (status !== "draft" && status !== "open") continue;
    const owed = await provider.ask((stripe) => toFinal(stripe, id, status));
    if (owed !== "open") continue;
    if (kind === "annual") await pay(deps, id);
    else await provider.ask((stripe) => stripe.invoices.voidInvoice(id));
  }
}

/** Finalizes a draft, and returns the status then: one without an amount is paid at once. */
async function toFinal(stripe: Stripe, id: string, status: string): Promise<Stripe.Invoice["status"]> {
  if (status === "open") return status;
  return (await stripe.invoices.finalizeInvoice(id, { auto_advance: false })).status;
}

/**
 * Collects an invoice. One that is declined stays open: its owner can pay it on its page, and the provider tries again as
 * it does with others, which it stopped with the end of the subscription.
 */
async function pay(deps: Deps, invoice: string): Promise<void> {
  try {
    await makeOnce(deps, `pay:${invoice}`, (stripe, options) => stripe.invoices.pay(invoice, {}, options));
  } catch (error) {
    if (!isRefused(error)) throw error;
    deps.log.warn({ invoice }, "the last invoice of a canceled subscription is not paid");
    await deps.provider.ask((stripe) => stripe.invoices.update(invoice, { auto_advance: true }));
  }
}
