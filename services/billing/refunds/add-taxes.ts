import type { PaidInvoice } from "../invoices/paid-invoices.ts";
import { readCredit } from "../invoices/taxes.ts";
import type { Provider } from "../stripe/provider.ts";
import type { Refund } from "./refund.ts";

/**
 * Returns refunds with the tax of what is given back: the provider says what a credit note of the same lines comes to.
 * Throws 502 payment_provider_unavailable.
 */
export async function addTaxes(
  provider: Provider,
  refunds: Refund[],
  paid: PaidInvoice[],
): Promise<Refund[]> {
  const priced: Refund[] = [];
  for (const refund of refunds) {
    const { invoiceId, lines } = refund;
    const credit = lines
      ? await provider.ask((stripe) => readCredit(stripe, invoiceId, lines))
      : { cents: refund.amountCents, taxCents: 0 };
    const { cents: amountCents, ...taxed } = credit;
    const cash = paid.find(({ id }) => id === invoiceId)?.cashCents ?? 0;
    const cashCents = Math.min(amountCents, Math.max(0, cash));
    priced.push({ ...refund, ...taxed, amountCents, cashCents });
  }
  return priced;
}
