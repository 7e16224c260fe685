import { BillingService } from "../../proto/gen/berth/billing/v1/billing_pb.ts";
import { InternalService } from "../../proto/gen/berth/billing/v1/internal_pb.ts";
import { InternalService as DeployerInternal } from "../../proto/gen/berth/deployer/v1/internal_pb.ts";
import { InternalService as IdentityInternal } from "../../proto/gen/berth/identity/v1/internal_pb.ts";
import type { Logger } from "../kit/log.ts";
import { createPool } from "../kit/postgres/db.ts";
import { main, type Running } from "../kit/process/process.ts";
import { startService } from "../kit/process/service.ts";
import { createAccountLock } from "./accounts/account-lock.ts";
import { requireOwnDatabase } from "./accounts/installation.ts";
import { createPortal } from "./accounts/open-portal.ts";
import { createReadMembers } from "./accounts/read-members.ts";
import { findAccount } from "./accounts/sql.ts";
import { billingService } from "./api/billing-service.ts";
import { createUsageReads } from "./api/compute-usage.ts";
import { internalService } from "./api/internal-service.ts";
import { createSpendLimits } from "./api/spend-limits.ts";
import { createCancel } from "./cancellation/cancel.ts";
import { createResumeCancellation } from "./cancellation/steps/resume-cancellation.ts";
import { startCancellations } from "./cancellation/worker.ts";
import { createCheckout } from "./checkout/open-checkout.ts";
import { createPreviewCheckout } from "./checkout/preview-checkout.ts";
import { type Config, fields, LOCKS, pagesOf } from "./config.ts";
import { createCoupons } from "./coupons/saved-code.ts";
import { watchDisputes } from "./disputes/metrics.ts";
import { startCustomerReads } from "./due/worker.ts";
import { memberHandlers } from "./events.ts";
import { startMetering } from "./metering/report-periods.ts";
import { createChangePlan } from "./plan-change/change-plan.ts";
import { createMakeChange } from "./plan-change/make-change.ts";
import { startPlanChanges } from "./plan-change/worker.ts";
import { createPriceId } from "./pricing/price-ids.ts";
import { startSeeding } from "./pricing/seeding.ts";
import { createAdjustSeats } from "./seats/adjust-seats.ts";
import { createStatementReads } from "./statements/read-statements.ts";
import { createProvider } from "./stripe/provider.ts";
import { startSuspensions } from "./suspension/check-accounts.ts";
import { createPaymentSync } from "./sync/payment-sync.ts";
import { createSync } from "./sync/sync.ts";
import { owedNow } from "./usage/closing/owed.ts";
import { usageHandlers } from "./usage/ledger/handlers.ts";
import { createNames } from "./usage/ledger/names.ts";
import type { TierOf } from "./usage/read-usage.ts";
import { startUsageTasks } from "./usage/usage-tasks.ts";
import { createIntake } from "./webhook/intake.ts";
import { startReconciler } from "./webhook/reconcile.ts";

const DAY_SECONDS = 86_400;

/**
 * Starts billing: what accounts are on, use and pay, and what the payment provider reports. `now` is the clock of periods
 * and deadlines, in milliseconds.
 */
export async function start(config: Config, log: Logger, now: () => number = Date.now) {
  const options = { name: "billing", folder: import.meta.dirname, config, log };
  return startService(options, async ({ pool, cursors, client }) => {
    const pages = pagesOf(config);
    const provider = createProvider(config, log);
    if (provider.configured) await requireOwnDatabase(pool, provider);
    const locks = createPool(config.databaseUrl, { name: "billing locks", max: LOCKS, timeouts: config });
    const lock = createAccountLock(locks, provider);
    const priceId = createPriceId(provider);
    const readMembers = createReadMembers(client(IdentityInternal, config.identityUrl));
    const adjustSeats = createAdjustSeats({ pool, provider, priceId, readMembers });
    const { sync, syncLocked } = createSync({ pool, provider, lock, priceId, readMembers, adjustSeats, now });
    const syncPayment = createPaymentSync({ pool, provider, sync, lock, now, log });
    const resumeCancellation = createResumeCancellation({ pool, provider, log });
    const cancel = createCancel({ pool, provider, lock, syncLocked, resumeCancellation, log });
    const tierOf: TierOf = async (db, accountId) =>
      (await findAccount(db, accountId)).tier ?? config.defaultTier;
    const makeChange = createMakeChange({ pool, provider, priceId });
    const planChanges = createChangePlan({
      ...{ pool, provider, lock, priceId, readMembers, plans: config },
      ...{ makeChange, syncLocked, log },
    });
    const usage = createUsageReads({ pool, cursors, tierOf, now });
    const spendLimits = createSpendLimits({ pool, tierOf, now });
    const statements = createStatementReads({ pool, cursors });
    const names = createNames(pool, client(DeployerInternal, config.deployerUrl));
    const coupons = createCoupons({ pool, provider, lock, now, log });
    const openCheckout = createCheckout({
      pool,
      provider,
      lock,
      priceId,
      readMembers,
      coupons,
      pages,
      now,
    });
    const previewCheckout = createPreviewCheckout({
      ...{ pool, provider, priceId, readMembers, coupons },
      findOwed: (accountId) => owedNow(pool, accountId, Math.floor(now() / 1_000)),
    });
    const openPortal = createPortal({ pool, provider, returnUrl: pages.portalClosed });
    let wake = () => {};
    const secrets = config.stripeWebhookSecrets;
    const receive = createIntake({ pool, provider, secrets, stored: () => wake(), log });
    return {
      routes(router) {
        const reads = { usage, statements, cursors, spendLimits };
        const checkout = { openCheckout, previewCheckout };
        const handlers = {
          pool,
          provider,
          ...checkout,
          openPortal,
          cancel,
          ...planChanges,
          ...reads,
          coupons,
        };
        router.service(BillingService, billingService(handlers));
        router.service(InternalService, internalService({ pool, receive }));
      },
      consumers: [
        { name: "billing-deployer", from: "deployer", handlers: usageHandlers({ names, now }) },
        { name: "billing-identity", from: "identity", handlers: memberHandlers },
      ],
      background() {
        const graceSeconds = config.graceDays * DAY_SECONDS;
        const tasks: Running[] = [
          startUsageTasks({ pool, log, tierOf, now, quotas: config.planQuotas === "on" }),
          startSuspensions({ pool, log, graceSeconds, now }),
        ];
        if (provider.configured) {
          watchDisputes(pool);
          const reads = startCustomerReads({ pool, sync, syncPayment, log });
          wake = reads.wake;
          tasks.push(
            reads,
            startCancellations({ pool, lock, resumeCancellation, log }),
            startPlanChanges({ pool, lock, makeChange, log }),
            startReconciler({ pool, provider, log, now, stored: reads.wake }),
            startMetering({ pool, provider, log, now }),
            startSeeding({ provider, log }),
          );
        }
        return {
          stop: async () => {
            await Promise.all(tasks.map((task) => task.stop()));
            await locks.end();
          },
        };
      },
    };
  });
}

if (import.meta.main) await main("billing", fields, start);
