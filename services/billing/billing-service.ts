import { fromJson } from "@bufbuild/protobuf";
import { ValueSchema } from "@bufbuild/protobuf/wkt";
import type { ServiceImpl } from "@connectrpc/connect";
import type { BillingService } from "../../proto/gen/berth/billing/v1/billing_pb.ts";
import { answered, effect } from "../kit/idempotency/idempotency.ts";
import type { Pool } from "../kit/postgres/db.ts";
import { who } from "../kit/rpc/interceptor.ts";
import type { OpenPortal } from "./accounts/open-portal.ts";
import type { Cancel } from "./cancellation/cancel.ts";
import { previewCancellation } from "./cancellation/preview.ts";
import type { Cadence } from "./catalog/plans.ts";
import type { Coupons } from "./coupons/coupons.ts";
import { findPendingCoupon } from "./coupons/sql.ts";
import type { OpenCheckout } from "./subscription/checkout.ts";
import { noSubscription } from "./subscription/refusals.ts";
import { findSubscription, LIVE, listInvoices } from "./subscription/sql.ts";
import { toSubscription } from "./subscription/view.ts";
import type { UsageReads } from "./usage/usage-service.ts";

type Deps = {
  pool: Pool;
  openCheckout: OpenCheckout;
  openPortal: OpenPortal;
  cancel: Cancel;
  usage: UsageReads;
  coupons: Coupons;
  now: () => number;
};

/** What an account is on, uses and pays (docs/billing.md#plans). */
export function billingService({
  pool,
  openCheckout,
  openPortal,
  cancel,
  usage,
  coupons,
  now,
}: Deps): Partial<ServiceImpl<typeof BillingService>> {
  return {
    async getSubscription({ accountId }) {
      const found = await findSubscription(pool, accountId);
      if (!found || !LIVE.includes(found.status)) throw noSubscription();
      return toSubscription(found, await listInvoices(pool, accountId));
    },

    async createSubscription({ accountId, tierId, cadence = "monthly" }, ctx) {
      const url = await openCheckout(accountId, tierId, cadence as Cadence, who(ctx).caller.id);
      return answered(pool, ctx, { checkoutUrl: url });
    },

    cancelSubscription({ accountId }, ctx) {
      return cancel(accountId, who(ctx));
    },

    previewCancellation({ accountId }) {
      return previewCancellation(pool, accountId, now());
    },

    getComputeUsage: ({ accountId }) => usage.getComputeUsage(accountId),

    listComputeUsageLines: (request) => usage.listLines(request),

    async getCoupon({ accountId }) {
      const pending = await findPendingCoupon(pool, accountId);
      return { pending: fromJson(ValueSchema, pending?.coupon ?? null) };
    },

    async redeemCoupon({ accountId, code }, ctx) {
      return coupons.redeem(accountId, code, (work) =>
        effect(pool, ctx, async (tx) => {
          await work(tx);
          return {};
        }),
      );
    },

    async removeCoupon({ accountId }) {
      await coupons.remove(accountId);
      return {};
    },

    async openBillingPortal({ accountId }) {
      return { url: await openPortal(accountId) };
    },
  };
}
