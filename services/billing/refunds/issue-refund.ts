import type Stripe from "stripe";
import type { Pool } from "../../kit/postgres/db.ts";
import { FOLLOWS_END, isOfEnd } from "../invoices/paid-invoices.ts";
import { toNoteLines } from "../invoices/taxes.ts";
import { makeOnce } from "../stripe/make-once.ts";
import type { Provider } from "../stripe/provider.ts";
import type { Refund } from "./refund.ts";

type Deps = { pool: Pool; provider: Provider };

/**
 * Gives back a part of an invoice by a credit note, once: one that was made before, and whose answer was lost, is found by
 * its metadata. Returns its id.
 */
export async function issueRefund(deps: Deps, subscriptionId: string, refund: Refund): Promise<string> {
  const { invoiceId: invoice } = refund;
  const { data } = await deps.provider.ask((stripe) => stripe.creditNotes.list({ invoice, limit: 100 }));
  const made = data.find((note) => isOfEnd(note, subscriptionId));
  if (made) return made.id;
  const note = toCreditNote(subscriptionId, refund);
  const { id } = await makeOnce(
    deps,
    `refund:${subscriptionId}:${invoice}:${refund.amountCents}`,
    (stripe, options) => stripe.creditNotes.create(note, options),
  );
  return id;
}

function toCreditNote(cancellation: string, refund: Refund): Stripe.CreditNoteCreateParams {
  const { invoiceId, amountCents, cashCents, lines } = refund;
  const creditCents = amountCents - cashCents;
  return {
    invoice: invoiceId,
    ...(lines ? { lines: toNoteLines(lines) } : { amount: amountCents }),
    ...(cashCents > 0 && { refund_amount: cashCents }),
    ...(creditCents > 0 && { credit_amount: creditCents }),
    reason: "order_change",
    email_type: "none",
    metadata: { [FOLLOWS_END]: cancellation },
  };
}
