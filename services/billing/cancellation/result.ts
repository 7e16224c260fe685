import { cashOf } from "./refund.ts";
import type { Cancellation, RefundRow } from "./sql.ts";

/** How a subscription ends: when, and what is refunded, as the API shows it. */
export type Ending = {
  /** A time, or `now`. */
  accessUntil: string;
  refund?: { amountUsd: number; currency: string; estimatedArrivalDays: number };
  refundUnderReview: boolean;
};

export type CancelResult = Ending & { status: "canceled" };

/** Until cards show a refund, at most. */
const ARRIVAL_DAYS = 10;

/** Returns the answer about a subscription that ends with its period. */
export function lapsesAt(end: Date): Ending {
  return { accessUntil: end.toISOString().replace(".000Z", "Z"), refundUnderReview: false };
}

/** Returns the answer about a subscription that ends at once: with so much cash, or a refund that waits. */
export function endsNow(cashCents: number, refundUnderReview: boolean): Ending {
  const refund = { amountUsd: cashCents / 100, currency: "usd", estimatedArrivalDays: ARRIVAL_DAYS };
  return { accessUntil: "now", ...(cashCents > 0 && { refund }), refundUnderReview };
}

/** Returns the answer about a subscription that has ended, as far as its refund is. */
export function toResult({ kind, step }: Cancellation, refunds: RefundRow[]): CancelResult {
  const made = refunds.filter(({ creditNoteId }) => creditNoteId !== null);
  return { status: "canceled", ...endsNow(cashOf(made), kind === "annual" && step !== "done") };
}
