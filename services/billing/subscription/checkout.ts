import type Stripe from "stripe";
import type { Pool } from "../../kit/postgres/db.ts";
import { conflict, invalid, refuse } from "../../kit/rpc/errors.ts";
import type { AccountLock } from "../accounts/account-lock.ts";
import { ensureCustomer } from "../accounts/customer.ts";
import type { Members } from "../accounts/members.ts";
import { findAccount } from "../accounts/sql.ts";
import { lookupKey } from "../catalog/keys.ts";
import { type Cadence, extraSeats, isPaidTier, type PaidTier } from "../catalog/plans.ts";
import type { PriceId } from "../catalog/price-ids.ts";
import { PRICE_VERSION } from "../catalog/price-versions.ts";
import type { Coupons } from "../coupons/coupons.ts";
import type { Provider } from "../stripe/provider.ts";
import { markCustomer } from "../webhook/sql.ts";
import { findSubscription, LIVE } from "./sql.ts";

/** How long a checkout can be finished, in seconds; until then prices and members stay as they were. */
const OPEN_SECONDS = 3_600;

type Deps = {
  pool: Pool;
  provider: Provider;
  lock: AccountLock;
  priceId: PriceId;
  members: Members;
  coupons: Coupons;
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
  priceId,
  members,
  coupons,
  pages,
  now,
}: Deps): OpenCheckout {
  return async (accountId, tierId, cadence, userId) => {
    const tier = requireSelfServe(tierId);
    return lock(accountId, async () => {
      await requireBuyer(pool, accountId);
      const { email, handle, count } = await members(accountId, userId);
      const customer = await ensureCustomer({ pool, provider }, { accountId, email, handle });
      try {
        if (await hasLive(provider, customer)) throw subscriptionExists();
        const promotionCode = await coupons.findSpendable(accountId, { tier, cadence });
        const seats = extraSeats(tier, count);
        const choice = { tier, cadence, seats, ...(promotionCode && { promotionCode }) };
        return await openSession(accountId, customer, choice);
      } catch (error) {
        // A subscription that is not recorded, or a customer who was deleted: its webhooks are late or lost.
        await markCustomer(pool, customer);
        throw error;
      }
    });
  };

  async function openSession(accountId: string, customer: string, choice: Choice): Promise<string> {
    const session = await sessionOf(accountId, customer, choice);
    return provider.ask(async (stripe) => {
      const { data } = await stripe.checkout.sessions.list({ customer, status: "open", limit: 100 });
      const same = data.find(({ metadata, url }) => metadata?.choice === nameOf(choice) && url);
      // Each page that is open could be paid.
      for (const other of data) if (other !== same) await stripe.checkout.sessions.expire(other.id);
      return same?.url ?? (await stripe.checkout.sessions.create(session)).url!;
    });
  }

  async function sessionOf(
    accountId: string,
    customer: string,
    choice: Choice,
  ): Promise<Stripe.Checkout.SessionCreateParams> {
    const { tier, cadence, seats, promotionCode } = choice;
    const about = { accountId, tierId: tier, cadence, priceVersion: PRICE_VERSION };
    const plan = await priceId(lookupKey("plan", tier, cadence));
    const seat = await priceId(lookupKey("seat", tier, cadence));
    // Compute is attached later, but nothing is sold without it.
    await priceId(lookupKey("compute"));
    return {
      mode: "subscription",
      ui_mode: "hosted_page",
      customer,
      customer_update: { address: "auto", name: "auto" },
      client_reference_id: accountId,
      success_url: pages.subscribed,
      cancel_url: pages.notSubscribed,
      line_items: [{ price: plan, quantity: 1 }, ...(seats > 0 ? [{ price: seat, quantity: seats }] : [])],
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

async function requireBuyer(pool: Pool, accountId: string): Promise<void> {
  const { directAgreement } = await findAccount(pool, accountId);
  if (directAgreement)
    throw refuse(
      403,
      "direct_agreement",
      "The account is billed by an agreement. Ask the operator to change it.",
    );
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
