import Stripe from "stripe";

/**
 * What became of a dispute: an `inquiry` is a question of the bank, which takes no money; `open` until the bank decides;
 * `won` also where the bank dropped it.
 */
export type DisputeOutcome = "inquiry" | "open" | "won" | "lost";

/** There are few disputes; more than these are not read. */
const MOST = 10_000;

const OUTCOMES: Record<string, DisputeOutcome> = {
  warning_needs_response: "inquiry",
  warning_under_review: "inquiry",
  warning_closed: "won",
  prevented: "won",
  won: "won",
  lost: "lost",
};

/** Returns what became of a dispute; one of a status that this version does not know is open. Pure. */
export function outcomeOf({ status }: Pick<Stripe.Dispute, "status">): DisputeOutcome {
  return OUTCOMES[status] ?? "open";
}

/**
 * Returns the disputes of a payment, the newest first; undefined when the key may not read disputes, as keys of before
 * Berth read them. Stripe refuses to refund a disputed payment anyway.
 */
export function readDisputes(stripe: Stripe, payment_intent: string): Promise<Stripe.Dispute[] | undefined> {
  return list(stripe, { payment_intent });
}

/** Returns the payments that were disputed since a time (s); undefined as `readDisputes`. */
export async function readDisputedPayments(stripe: Stripe, since: number): Promise<string[] | undefined> {
  const disputes = await list(stripe, { created: { gte: since } });
  return disputes?.flatMap(({ payment_intent: payment }) => {
    const id = typeof payment === "string" ? payment : payment?.id;
    return id ?? [];
  });
}

async function list(stripe: Stripe, filter: Stripe.DisputeListParams): Promise<Stripe.Dispute[] | undefined> {
  try {
    return await stripe.disputes.list({ ...filter, limit: 100 }).autoPagingToArray({ limit: MOST });
  } catch (error) {
    if (error instanceof Stripe.errors.StripePermissionError) return undefined;
    throw error;
  }
}
