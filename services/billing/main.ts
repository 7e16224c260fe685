import { BillingService } from "../../proto/gen/berth/billing/v1/billing_pb.ts";
import { InternalService } from "../../proto/gen/berth/billing/v1/internal_pb.ts";
import { InternalService as DeployerInternal } from "../../proto/gen/berth/deployer/v1/internal_pb.ts";
import { InternalService as IdentityInternal } from "../../proto/gen/berth/identity/v1/internal_pb.ts";
import type { Logger } from "../kit/log.ts";
import { createPool } from "../kit/postgres/db.ts";
import { main, type Running } from "../kit/process/process.ts";
import { startService } from "../kit/process/service.ts";
import { createAccountLock } from "./accounts/account-lock.ts";
import { createMembers } from "./accounts/members.ts";
import { createPortal } from "./accounts/open-portal.ts";
import { findAccount } from "./accounts/sql.ts";
import { billingService } from "./billing-service.ts";
import { createCancel } from "./cancellation/cancel.ts";
import { createCarryOn } from "./cancellation/carry-on.ts";
import { createPaymentSync } from "./cancellation/failed-refunds.ts";
import { startCancellations } from "./cancellation/worker.ts";
import { createPriceId } from "./catalog/price-ids.ts";
import { startSeeding } from "./catalog/seeding.ts";
import { type Config, fields, LOCKS, pagesOf } from "./config.ts";
import { createCoupons } from "./coupons/coupons.ts";
import { startMetering } from "./metering/report-periods.ts";
import { createAdjustSeats } from "./seats/adjust-seats.ts";
import { memberHandlers } from "./seats/handlers.ts";
import { findSubscribedCustomer } from "./seats/sql.ts";
import { createProvider } from "./stripe/provider.ts";
import { createCheckout } from "./subscription/checkout.ts";
import { LIVE } from "./subscription/sql.ts";
import { createSync } from "./subscription/sync.ts";
import { usageHandlers } from "./usage/ledger/handlers.ts";
import { createNames } from "./usage/ledger/names.ts";
import type { TierOf } from "./usage/read-usage.ts";
import { createUsageReads } from "./usage/usage-service.ts";
import { startUsageTasks } from "./usage/usage-tasks.ts";
import { startInbox } from "./webhook/inbox.ts";
import { createIntake } from "./webhook/intake.ts";
import { startReconciler } from "./webhook/reconcile.ts";

/**
 * Starts billing: what accounts are on, use and pay, and what the payment provider reports. `now` is the clock of periods
 * and deadlines, in milliseconds.
 */
export async function start(config: Config, log: Logger, now: () => number = Date.now) {
  const options = { name: "billing", folder: import.meta.dirname, config, log };
  return startService(options, async ({ pool, cursors, client }) => {
    const pages = pagesOf(config);
    const provider = createProvider(config, log);
    const locks = createPool(config.databaseUrl, { name: "billing locks", max: LOCKS, timeouts: config });
    const lock = createAccountLock(locks);
    const priceId = createPriceId(provider);
    const members = createMembers(client(IdentityInternal, config.identityUrl));
    const adjustSeats = createAdjustSeats({ pool, provider, priceId, members });
    const { sync, syncLocked } = createSync({ pool, provider, lock, priceId, members, adjustSeats, now });
    const syncAny = createPaymentSync({ pool, provider, sync, log });
    const carryOn = createCarryOn({ pool, provider, log, clock: now });
    const cancel = createCancel({ pool, provider, lock, syncLocked, carryOn, log });
    const tierOf: TierOf = async (db, accountId) =>
      (await findAccount(db, accountId)).tier ?? config.defaultTier;
    const usage = createUsageReads({ pool, cursors, tierOf, now });
    const names = createNames(pool, client(DeployerInternal, config.deployerUrl));
    const coupons = createCoupons({ pool, provider, lock, now, log });
    const openCheckout = createCheckout({
      pool,
      provider,
      lock,
      priceId,
      members,
      coupons,
      pages,
      now,
    });
    const openPortal = createPortal({ pool, provider, returnUrl: pages.portalClosed });
    let wake = () => {};
    const secrets = config.stripeWebhookSecrets;
    const receive = createIntake({ pool, provider, secrets, stored: () => wake(), log });
    return {
      routes(router) {
        const handlers = { pool, openCheckout, openPortal, cancel, usage, coupons, now };
        router.service(BillingService, billingService(handlers));
        router.service(InternalService, {
          async receiveWebhook({ payload, signature }) {
            await receive(payload, signature);
            return {};
          },
          async findSubscription({ accountId }) {
            const { directAgreement } = await findAccount(pool, accountId);
            return {
              subscribed:
                directAgreement || (await findSubscribedCustomer(pool, accountId, LIVE)) !== undefined,
            };
          },
        });
      },
      consumers: [
        { name: "billing-deployer", from: "deployer", handlers: usageHandlers({ names, now }) },
        { name: "billing-identity", from: "identity", handlers: memberHandlers },
      ],
      background() {
        const tasks: Running[] = [startUsageTasks({ pool, log, tierOf, now })];
        if (provider.configured) {
          const inbox = startInbox({ pool, sync: syncAny, log });
          wake = inbox.wake;
          tasks.push(
            inbox,
            startCancellations({ pool, provider, lock, carryOn, log }),
            startReconciler({ pool, provider, log, now, stored: inbox.wake }),
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
