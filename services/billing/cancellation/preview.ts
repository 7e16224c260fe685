import { timestampDate } from "@bufbuild/protobuf/wkt";
import type { Pool } from "../../kit/postgres/db.ts";
import { listPaidInvoices } from "../subscription/sql.ts";
import { endingOf, requireCancelable } from "./cancelable.ts";
import { isInReview } from "./carry-on.ts";
import { annualRefunds, cashOf } from "./refund.ts";
import { type Ending, endsNow, lapsesAt } from "./result.ts";

/** Returns what canceling would answer at `now`, in milliseconds, by what the provider last reported. */
export async function previewCancellation(pool: Pool, accountId: string, now: number): Promise<Ending> {
  const subscription = await requireCancelable(pool, accountId);
  const ending = endingOf(subscription);
  if (ending === "lapse") return lapsesAt(timestampDate(subscription.currentPeriodEnd));
  if (ending === "unpaid") return endsNow(0, false);
  const at = Math.floor(now / 1_000);
  const refunds = annualRefunds(await listPaidInvoices(pool, subscription.id), at);
  const waits = refunds.length > 0 && isInReview(Number(subscription.createdAt.seconds), at);
  return endsNow(waits ? 0 : cashOf(refunds), waits);
}
