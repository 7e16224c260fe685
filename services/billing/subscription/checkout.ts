import type Stripe from "stripe";
import type { Pool } from "../../kit/postgres/db.ts";
import { conflict, invalid, refuse } from "../../kit/rpc/errors.ts";
import type { AccountLock } from "../accounts/account-lock.ts";
import { ensureCustomer } from "../accounts/customer.ts";
import type { Members } from "../accounts/members.ts";
import { findAccount } from "../accounts/sql.ts";
import { type Cadence, extraSeats, isPaidTier, type PaidTier } from "../catalog/plans.ts";
import type { PriceIds } from "../catalog/price-ids.ts";
import { PRICE_VERSION } from "../catalog/price-versions.ts";
import type { Coupons } from "../coupons/coupons.ts";
import type { Provider } from "../stripe/provider.ts";
import { findSubscription, LIVE } from "./sql.ts";
import type { Sync } from "./sync.ts";

/** How long a checkout can be finished, in seconds; until then prices and members stay as they were. */
const OPEN_SECONDS = 3_600;

type Deps = {
  pool: Pool;
  provider: Provider;
  lock: AccountLock;
  priceIds: PriceIds;
  members: Members;
  coupons: Coupons;
  sync: Sync;
  /** Where the provider's page leads back to. */
  pages: { subscribed: string; notSubscribed: string };
  now: () => number;
};

type Choice = { tier: PaidTier; cadence: Cadence; seats: number; promotionCode?: string };

/** Opens the provider's page on which an owner subscribes, and returns its URL (docs/billing.md#subscribing). */
export type OpenCheckout = (
  accountId: string,
  tierId: string,
  cadence: Cadence,
  userId: string,
) => Promise<string>;

export function createCheckout({
  pool,
  provider,
  lock,
  priceIds,
  members,
  coupons,
  sync,
  pages,
  now,
}: Deps): OpenCheckout {
  return async (accountId, tierId, cadence, userId) => {
    const tier = requireSelfServe(tierId);
    const { directAgreement } = await findAccount(pool, accountId);
    if (directAgreement)
      throw refuse(
        403,
        "direct_agreement",
        "The account is billed by an agreement. Ask the operator to change it.",
      );
    let stale: string | undefined;
    try {
      return await lock(accountId, async () => {
        await requireNone(pool, accountId);
        const { email, handle, count } = await members(accountId, userId);
        const customer = await ensureCustomer({ pool, provider }, { accountId, email, handle });
        if (await hasLive(provider, customer)) {
          stale = customer;
          throw subscriptionExists();
        }
        const promotionCode = await coupons.findSpendable(accountId, { tier, cadence });
        const choice = {
          tier,
          cadence,
          seats: extraSeats(tier, count),
          ...(promotionCode && { promotionCode }),
        };
        return openSession(accountId, customer, choice);
      });
    } finally {
      // The provider knows of one that is not recorded: its webhooks are late or lost.
      if (stale !== undefined) await sync(stale);
    }
  };

  async function openSession(accountId: string, customer: string, choice: Choice): Promise<string> {
    const wanted = nameOf(choice);
    const { of } = await priceIds();
    return provider.ask(async (stripe) => {
      const { data } = await stripe.checkout.sessions.list({ customer, status: "open", limit: 100 });
      const same = data.find(({ metadata, url }) => metadata?.choice === wanted && url);
      // Each page that is open could be paid.
      for (const other of data) if (other !== same) await stripe.checkout.sessions.expire(other.id);
      if (same?.url) return same.url;
      const made = await stripe.checkout.sessions.create(sessionOf(accountId, customer, choice, of));
      return made.url!;
    });
  }

  function sessionOf(
    accountId: string,
    customer: string,
    choice: Choice,
    priceOf: Awaited<ReturnType<PriceIds>>["of"],
  ): Stripe.Checkout.SessionCreateParams {
    const { tier, cadence, seats, promotionCode } = choice;
    const about = { accountId, tierId: tier, cadence, priceVersion: PRICE_VERSION };
    return {
      mode: "subscription",
      ui_mode: "hosted_page",
      customer,
      customer_update: { address: "auto", name: "auto" },
      client_reference_id: accountId,
      success_url: pages.subscribed,
      cancel_url: pages.notSubscribed,
      line_items: [
        { price: priceOf("plan", tier, cadence), quantity: 1 },
        ...(seats > 0 ? [{ price: priceOf("seat", tier, cadence), quantity: seats }] : []),
      ],
      ...(promotionCode && { discounts: [{ promotion_code: promotionCode }] }),
      subscription_data: {
        billing_mode: { type: "flexible" },
        metadata: { ...about, ...(promotionCode && { promotionCode }) },
      },
      expires_at: Math.floor(now() / 1_000) + OPEN_SECONDS,
      metadata: { ...about, choice: nameOf(choice) },
    };
  }
}

const nameOf = ({ tier, cadence, seats, promotionCode }: Choice) =>
  [tier, cadence, seats, promotionCode ?? "none", PRICE_VERSION].join(" ");

function requireSelfServe(tierId: string): PaidTier {
  if (tierId === "enterprise")
    throw refuse(403, "tier_not_self_serve", "The enterprise plan is by agreement. Ask the operator for it.");
  if (!isPaidTier(tierId)) throw invalid("tierId", "invalid_choice", "tierId must be pro or team.");
  return tierId;
}

async function requireNone(pool: Pool, accountId: string): Promise<void> {
  const found = await findSubscription(pool, accountId);
  if (found && LIVE.includes(found.status)) throw subscriptionExists();
}

async function hasLive(provider: Provider, customer: string): Promise<boolean> {
  const { data } = await provider.ask((stripe) =>
    stripe.subscriptions.list({ customer, status: "all", limit: 100 }),
  );
  return data.some(({ status }) => LIVE.includes(status));
}

const subscriptionExists = () =>
  conflict(
    "subscription_exists",
    "The account has a subscription. Cancel it before you choose another plan.",
  );
