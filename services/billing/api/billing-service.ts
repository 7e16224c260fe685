import { fromJson } from "@bufbuild/protobuf";
import { timestampMs, ValueSchema } from "@bufbuild/protobuf/wkt";
import type { ServiceImpl } from "@connectrpc/connect";
import type { BillingService } from "../../../proto/gen/berth/billing/v1/billing_pb.ts";
import { audit } from "../../kit/events/audit.ts";
import { effect } from "../../kit/idempotency/idempotency.ts";
import { type Pool, transaction } from "../../kit/postgres/db.ts";
import type { Cursors } from "../../kit/postgres/paging.ts";
import { who } from "../../kit/rpc/interceptor.ts";
import type { OpenPortal } from "../accounts/open-portal.ts";
import type { Cancel } from "../cancellation/cancel.ts";
import { previewCancellation } from "../cancellation/preview.ts";
import type { OpenCheckout } from "../checkout/open-checkout.ts";
import type { PreviewCheckout } from "../checkout/preview-checkout.ts";
import type { Coupons } from "../coupons/saved-code.ts";
import { findPendingCoupon } from "../coupons/sql.ts";
import { listInvoices } from "../invoices/sql.ts";
import type { ChangePlan, PreviewChange } from "../plan-change/change-plan.ts";
import type { Cadence } from "../pricing/plans.ts";
import type { StatementReads } from "../statements/read-statements.ts";
import type { Provider } from "../stripe/provider.ts";
import { noSubscription } from "../subscription/refusals.ts";
import { findSubscription } from "../subscription/sql.ts";
import { LIVE } from "../subscription/statuses.ts";
import type { UsageReads } from "./compute-usage.ts";
import type { SpendLimits } from "./spend-limits.ts";
import { toInvoice, toSubscription } from "./subscription-message.ts";

type Deps = {
  pool: Pool;
  provider: Provider;
  openCheckout: OpenCheckout;
  previewCheckout: PreviewCheckout;
  openPortal: OpenPortal;
  cancel: Cancel;
  changePlan: ChangePlan;
  previewChange: PreviewChange;
  usage: UsageReads;
  statements: StatementReads;
  cursors: Cursors;
  coupons: Coupons;
  spendLimits: SpendLimits;
};

/** What an account is on, uses and pays (docs/billing.md#plans). */
export function billingService({
  pool,
  provider,
  openCheckout,
  previewCheckout,
  openPortal,
  cancel,
  changePlan,
  previewChange,
  usage,
  statements,
  cursors,
  coupons,
  spendLimits,
}: Deps): Partial<ServiceImpl<typeof BillingService>> {
  return {
    async getSubscription({ accountId }) {
      const found = await findSubscription(pool, accountId);
      if (!found || !LIVE.includes(found.status)) throw noSubscription();
      return toSubscription(found, await listInvoices(pool, accountId));
    },

    async createSubscription({ accountId, tierId, cadence = "monthly" }, ctx) {
      const by = who(ctx);
      const checkoutUrl = await openCheckout(accountId, tierId, cadence as Cadence, by.caller.id);
      const entry = { service: "billing", accountId, action: "subscription.checkout", target: tierId };
      return effect(pool, ctx, async (tx) => {
        await audit(tx, by, { ...entry, metadata: { cadence } });
        return { checkoutUrl };
      });
    },

    previewCheckout: ({ accountId, tierId, cadence = "monthly" }) =>
      previewCheckout(accountId, tierId, cadence as Cadence),

    cancelSubscription({ accountId }, ctx) {
      return cancel(accountId, who(ctx));
    },

    previewCancellation({ accountId }) {
      return previewCancellation({ pool, provider }, accountId);
    },

    updateSubscription({ accountId, asOf, totalUsd, ...wanted }, ctx) {
      const shown = {
        ...(asOf && { asOf: Math.floor(timestampMs(asOf) / 1_000) }),
        ...(totalUsd !== undefined && { totalCents: Math.round(totalUsd * 100) }),
      };
      return changePlan(accountId, { ...wanted, ...shown }, who(ctx));
    },

    previewSubscriptionChange: ({ accountId, ...wanted }) => previewChange(accountId, wanted),

    getComputeUsage: ({ accountId }) => usage.getComputeUsage(accountId),

    listComputeUsageLines: (request) => usage.listLines(request),

    listStatements: (request) => statements.listStatements(request),

    getStatement: ({ accountId, month }) => statements.getStatement(accountId, month),

    getSpendLimit: ({ accountId }) => spendLimits.get(accountId),

    setSpendLimit: ({ accountId, limitUsd }, ctx) => spendLimits.set(accountId, limitUsd, who(ctx)),

    async listInvoices({ accountId, ...page }) {
      const { data, page: next } = await cursors.page(
        `invoices:${accountId}`,
        page,
        (position) => listInvoices(pool, accountId, position),
        ({ position }) => position,
      );
      return { data: data.map(toInvoice), page: next };
    },

    async getCoupon({ accountId }) {
      const pending = await findPendingCoupon(pool, accountId);
      return { pending: fromJson(ValueSchema, pending?.coupon ?? null) };
    },

    async redeemCoupon({ accountId, code }, ctx) {
      return coupons.redeem(accountId, code, who(ctx), (work) =>
        effect(pool, ctx, async (tx) => {
          await work(tx);
          return {};
        }),
      );
    },

    async removeCoupon({ accountId }, ctx) {
      await coupons.remove(accountId, who(ctx));
      return {};
    },

    async openBillingPortal({ accountId }, ctx) {
      const url = await openPortal(accountId);
      const entry = { service: "billing", accountId, action: "billing_portal.open", target: accountId };
      await transaction(pool, (tx) => audit(tx, who(ctx), entry));
      return { url };
    },
  };
}
