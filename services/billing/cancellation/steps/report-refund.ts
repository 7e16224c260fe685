import { RefundChangedSchema } from "../../../../proto/gen/berth/billing/v1/events_pb.ts";
import { emit } from "../../../kit/events/outbox.ts";
import type { Tx } from "../../../kit/postgres/db.ts";
import { cashOf, taxOf } from "../../refunds/refund.ts";
import { listRefunds } from "../../refunds/sql.ts";
import { type Cancellation, findCancellation, setRefundStatus } from "../sql.ts";
import { announceEnd } from "./announce-end.ts";

/** Reports what became of a refund, once, after the end of the subscription; nothing when there is none. */
export async function reportRefund(
  tx: Tx,
  { accountId, subscriptionId }: Pick<Cancellation, "accountId" | "subscriptionId">,
  status: "refunded" | "under_review" | "denied",
  reason?: "disputed",
): Promise<void> {
  const refunds = await listRefunds(tx, subscriptionId);
  const amount = cashOf(refunds);
  if (amount === 0 || (await setRefundStatus(tx, subscriptionId, status)) === 0) return;
  await announceEnd(tx, subscriptionId);
  const kind = (await findCancellation(tx, subscriptionId))?.kind;
  await emit(tx, RefundChangedSchema, accountId, {
    accountId,
    subscriptionId,
    status,
    amountCents: BigInt(amount),
    taxCents: BigInt(taxOf(refunds)),
    reason: reason ?? (kind === "duplicate" ? "duplicate" : "canceled"),
  });
}
