import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import {
  InvoiceMirroredSchema,
  PaymentActionRequiredSchema,
  PaymentFailedSchema,
} from "../../../proto/gen/berth/billing/v1/events_pb.ts";
import { eventOf, type OutboxEvent } from "../../kit/events/outbox.ts";
import type { MirroredInvoice } from "./mirror-invoice.ts";
import type { RecordedInvoice } from "./sql.ts";

/** Returns the events of an account's invoice that was recorded as `before`; without one it is new. Pure. */
export function invoiceEvents(
  before: RecordedInvoice | undefined,
  accountId: string,
  invoice: MirroredInvoice,
): OutboxEvent[] {
  const { id: invoiceId, kind, status, nextAttempt, attempts, actionRequired } = invoice;
  const { number = "", lines } = invoice;
  const amounts = { totalCents: BigInt(invoice.totalCents), dueCents: BigInt(invoice.dueCents) };
  const payment = { accountId, invoiceId, ...amounts, number, lines };
  const events: OutboxEvent[] = [];
  if (before?.status !== status)
    events.push(eventOf(InvoiceMirroredSchema, accountId, { ...payment, kind, status }));
  if (actionRequired && !before?.actionRequired)
    events.push(eventOf(PaymentActionRequiredSchema, accountId, payment));
  else if (status === "open" && attempts > (before?.attempts ?? 0)) {
    const nextAttemptAt = nextAttempt && { nextAttemptAt: timestampFromDate(nextAttempt) };
    events.push(eventOf(PaymentFailedSchema, accountId, { ...payment, ...nextAttemptAt }));
  }
  return events;
}
