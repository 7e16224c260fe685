import type { InvoiceKind } from "../invoices/subscribed-lines.ts";
import type { Refund } from "../refunds/refund.ts";

// Times are whole seconds since 1970, amounts cents of a US dollar.

/** An invoice that is charged, now or at a time. */
export type Charge = {
  kind: InvoiceKind;
  cents: number;
  /** When, if not now. */
  at?: number;
  /** Compute runs until then, and may come to more. */
  estimated: boolean;
};

/** What is not charged: of an invoice that is open, of a renewal that is not final, or what goes to the balance. */
export type Credit = { kind: "open_invoice" | "renewal" | "balance"; cents: number };

/** What a cancellation charges and credits beside its refunds. */
export type Settlement = {
  charges: Charge[];
  credits: Credit[];
  /** What went wrong without stopping it, as sentences. */
  warnings: string[];
};

export const emptySettlement = (): Settlement => ({ charges: [], credits: [], warnings: [] });

/** A refund as far as it is made: undefined of one that is only planned. */
export type MadeRefund = Refund & { creditNoteId?: string | null };
