import type { MessageInitShape } from "@bufbuild/protobuf";
import type { SubscriptionSchema } from "../../../proto/gen/berth/billing/v1/billing_pb.ts";
import type { InvoiceRow, SubscriptionRow } from "./sql.ts";

/** Returns a subscription as the API shows it. Pure. */
export function toSubscription(
  row: SubscriptionRow,
  invoices: InvoiceRow[],
): MessageInitShape<typeof SubscriptionSchema> {
  const { tier: _tier, createdAt: _created, coupon, paymentMethod, ...shown } = row;
  return {
    ...shown,
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
