import type Stripe from "stripe";
import { DisputeChangedSchema } from "../../../proto/gen/berth/billing/v1/events_pb.ts";
import { audit } from "../../kit/events/audit.ts";
import { emit } from "../../kit/events/outbox.ts";
import type { Logger } from "../../kit/log.ts";
import { type Pool, type Tx, transaction } from "../../kit/postgres/db.ts";
import { releaseDisputed, requestCancellation } from "../cancellation/sql.ts";
import { outcomeOf } from "../stripe/disputes.ts";
import { LIVE } from "../subscription/statuses.ts";
import * as sql from "./sql.ts";

type Deps = { pool: Pool; log: Logger; now: () => number };

/** A payment, and the invoice that it pays. */
export type DisputedPayment = {
  paymentId: string;
  invoiceId: string;
  accountId: string;
  subscriptionId: string | null;
};

/**
 * Records the disputes of a payment, with what follows from them (docs/billing.md#disputes): an event and an audit record
 * of each change, the end of a plan that is not paid any longer, and refunds that waited for the bank. Done again, it
 * changes nothing; to be called under the account's lock.
 */
export async function recordDisputes(
  { pool, log, now }: Deps,
  payment: DisputedPayment,
  disputes: Stripe.Dispute[],
): Promise<void> {
  const { accountId, subscriptionId, invoiceId } = payment;
  const changed = await transaction(pool, async (tx) => {
    const rows = [];
    // The oldest first.
    for (const dispute of disputes.toReversed()) {
      const row = toRow(payment, dispute);
      const before = await sql.findOutcome(tx, row.id);
      await sql.putDispute(tx, row);
      if (before === row.outcome) continue;
      await follow(tx, row, new Date(now()));
      rows.push(row);
    }
    if (subscriptionId !== null && !disputes.some((dispute) => outcomeOf(dispute) === "open"))
      await releaseDisputed(tx, subscriptionId);
    return rows;
  });
  for (const { id: disputeId, outcome, amountCents: cents, reason } of changed)
    log.error({ accountId, invoiceId, disputeId, outcome, cents, reason }, "a payment is or was disputed");
}

/** Reports a change of a dispute, and ends the plan of which a payment is lost. */
async function follow(tx: Tx, row: sql.DisputeRow, at: Date): Promise<void> {
  const { id: disputeId, accountId, subscriptionId, invoiceId, outcome, amountCents, reason } = row;
  const by = { caller: { kind: "service" as const, id: "billing", ip: "" }, requestId: "" };
  const metadata = { invoiceId, cents: String(amountCents), reason };
  const action = `dispute.${outcome}`;
  await audit(tx, by, { service: "billing", accountId, action, target: disputeId, metadata });
  // It takes no money, and most never become a dispute.
  if (outcome === "inquiry") return;
  const found = await sql.findDisputed(tx, invoiceId, at);
  const endsPlan = outcome === "lost" && found !== undefined && isLive(found) && found.paysPlan;
  await emit(tx, DisputeChangedSchema, accountId, {
    accountId,
    disputeId,
    invoiceId,
    subscriptionId: subscriptionId ?? "",
    outcome,
    amountCents: BigInt(amountCents),
    number: found?.number ?? "",
    reason,
    endsPlan,
  });
  if (!endsPlan || subscriptionId === null) return;
  const kind = found.cadence === "annual" ? "annual" : "unpaid";
  const ended = await requestCancellation(tx, { subscriptionId, accountId, kind, atOnce: true });
  if (ended)
    await audit(tx, by, {
      service: "billing",
      accountId,
      action: "subscription.cancel",
      target: subscriptionId,
      metadata: { dispute: disputeId },
    });
}

const isLive = ({ status }: sql.Disputed) => status !== null && LIVE.includes(status);

function toRow(payment: DisputedPayment, dispute: Stripe.Dispute): sql.DisputeRow {
  const { id, status, amount, reason, created, evidence_details: details } = dispute;
  return {
    ...payment,
    id,
    outcome: outcomeOf(dispute),
    unanswered: status.endsWith("needs_response"),
    respondBy: details.due_by === null ? null : new Date(details.due_by * 1_000),
    amountCents: amount,
    reason,
    createdAt: new Date(created * 1_000),
  };
}
