import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampDate, timestampFromDate, timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { InvoiceSchema, SubscriptionSchema } from "../../../proto/gen/berth/billing/v1/billing_pb.ts";
import type { InvoiceRow } from "../invoices/sql.ts";
import { legacyUntil } from "../pricing/price-versions.ts";
import { termMonths } from "../pricing/terms.ts";
import type { SubscriptionRow } from "../subscription/sql.ts";

/** Returns a subscription as the API shows it. Pure. */
export function toSubscription(
  row: SubscriptionRow,
  invoices: InvoiceRow[],
): MessageInitShape<typeof SubscriptionSchema> {
  const { tier: _tier, createdAt: _created, coupon, pending, paymentMethod, ...shown } = row;
  const end = timestampDate(row.currentPeriodEnd);
  const until = legacyUntil(row.priceVersion, { end, months: termMonths(row.cadence) });
  return {
    ...shown,
    ...(until && { legacyUntil: timestampFromDate(until) }),
    ...(coupon && { coupon, couponCode: coupon.code }),
    ...(paymentMethod && { paymentMethod }),
    ...(pending && {
      pendingChange: {
        tierId: pending.tier,
        cadence: pending.cadence,
        at: timestampFromMs(pending.at * 1_000),
      },
    }),
    invoices: invoices.map(toInvoice),
  };
}

/** Returns an invoice as the API shows it. Pure. */
export function toInvoice(row: InvoiceRow): MessageInitShape<typeof InvoiceSchema> {
  const { totalCents, taxCents, pdfUrl, hostedUrl, number, position: _position, ...invoice } = row;
  return {
    ...invoice,
    totalUsd: totalCents / 100,
    taxUsd: taxCents / 100,
    ...(pdfUrl && { pdfUrl }),
    ...(hostedUrl && { hostedUrl }),
    ...(number && { number }),
  };
}
