import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampDate, timestampFromDate } from "@bufbuild/protobuf/wkt";
import type { SubscriptionSchema } from "../../../proto/gen/berth/billing/v1/billing_pb.ts";
import { legacyUntil } from "../catalog/price-versions.ts";
import type { InvoiceRow, SubscriptionRow } from "./sql.ts";

/** Returns a subscription as the API shows it. Pure. */
export function toSubscription(
  row: SubscriptionRow,
  invoices: InvoiceRow[],
): MessageInitShape<typeof SubscriptionSchema> {
  const { tier: _tier, createdAt: _created, coupon, paymentMethod, ...shown } = row;
  const end = timestampDate(row.currentPeriodEnd);
  const until = legacyUntil(row.priceVersion, { end, months: row.cadence === "annual" ? 12 : 1 });
  return {
    ...shown,
    ...(until && { legacyUntil: timestampFromDate(until) }),
    ...(coupon && { coupon, couponCode: coupon.code }),
    ...(paymentMethod && { paymentMethod }),
    invoices: invoices.map(({ totalCents, pdfUrl, hostedUrl, ...invoice }) => ({
      ...invoice,
      totalUsd: totalCents / 100,
      ...(pdfUrl && { pdfUrl }),
      ...(hostedUrl && { hostedUrl }),
    })),
  };
}
