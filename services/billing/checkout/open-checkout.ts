import type Stripe from "stripe";
import type { Pool } from "../../kit/postgres/db.ts";
import { conflict, invalid, refuse } from "../../kit/rpc/refusals.ts";
import type { AccountLock } from "../accounts/account-lock.ts";
import { ensureCustomer } from "../accounts/customer.ts";
import type { ReadMembers } from "../accounts/read-members.ts";
import { findAccount } from "../accounts/sql.ts";
import type { Applicable, Coupons } from "../coupons/saved-code.ts";
import { markCustomer } from "../due/sql.ts";
import { lookupKey } from "../pricing/keys.ts";
import { type Cadence, extraSeats, isPaidTier, type PaidTier } from "../pricing/plans.ts";
import type { PriceId } from "../pricing/price-ids.ts";
import { PRICE_VERSION } from "../pricing/price-versions.ts";
import { ownedBy } from "../stripe/installation.ts";
import type { Provider } from "../stripe/provider.ts";
import { findSubscription } from "../subscription/sql.ts";
import { LIVE } from "../subscription/statuses.ts";

/** How long a checkout can be finished, in seconds; until then prices and members stay as they were. */
const OPEN_SECONDS = 3_600;

type Deps = {
  pool: Pool;
  provider: Provider;
  lock: AccountLock;
  priceId: PriceId;
  readMembers: ReadMembers;
  coupons: Coupons;
  /** Where the provider's page leads back to. */
  pages: Record<"subscribed" | "notSubscribed", (accountId: string) => string>;
  now: () => number;
};

type Choice = { tier: PaidTier; cadence: Cadence; seats: number; code?: Applicable };

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
  readMembers,
  coupons,
  pages,
  now,
}: Deps): OpenCheckout {
  return async (accountId, tierId, cadence, userId) => {
    const tier = requireSelfServe(tierId);
    return lock(accountId, async () => {
      await requireBuyer(pool, accountId);
      const { email, handle, count } = await readMembers(accountId, userId);
      const customer = await ensureCustomer({ pool, provider }, { accountId, email, handle });
      try {
        if (await hasLive(provider, customer)) throw subscriptionExists();
        const code = await coupons.findApplicable(accountId, { tier, cadence });
        const seats = extraSeats(tier, count);
        const choice = { tier, cadence, seats, ...(code && { code }) };
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
    const choiceName = nameOf(choice, provider);
    return provider.ask(async (stripe) => {
      const { data } = await stripe.checkout.sessions.list({ customer, status: "open", limit: 100 });
      const same = data.find(({ metadata, url }) => metadata?.choice === choiceName && url);
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
    const { tier, cadence, code } = choice;
    const about = {
      accountId,
      tierId: tier,
      cadence,
      priceVersion: PRICE_VERSION,
      ...ownedBy(provider.installation),
    };
    return {
      mode: "subscription",
      ui_mode: "hosted_page",
      customer,
      customer_update: { address: "auto", name: "auto" },
      ...(provider.addsTax && { automatic_tax: { enabled: true }, tax_id_collection: { enabled: true } }),
      client_reference_id: accountId,
      success_url: pages.subscribed(accountId),
      cancel_url: pages.notSubscribed(accountId),
      line_items: await itemsOf(priceId, choice),
      ...(code && { discounts: [code.source] }),
      subscription_data: {
        billing_mode: { type: "flexible" },
        metadata: { ...about, ...(code && { promotionCode: code.promotionCode }) },
      },
      expires_at: Math.floor(now() / 1_000) + OPEN_SECONDS,
      metadata: { ...about, choice: nameOf(choice, provider) },
    };
  }
}

/** Returns what a checkout sells. Throws 502 payment_provider_unavailable while it is not set up. */
export async function itemsOf(
  priceId: PriceId,
  { tier, cadence, seats }: Pick<Choice, "tier" | "cadence" | "seats">,
): Promise<{ price: string; quantity: number }[]> {
  const plan = await priceId(lookupKey("plan", tier, cadence));
  const seat = await priceId(lookupKey("seat", tier, cadence));
  // Compute is attached later, but nothing is sold without it.
  await priceId(lookupKey("compute"));
  return [{ price: plan, quantity: 1 }, ...(seats > 0 ? [{ price: seat, quantity: seats }] : [])];
}

const nameOf = ({ tier, cadence, seats, code }: Choice, { addsTax }: Provider) =>
  [tier, cadence, seats, code?.promotionCode ?? "none", PRICE_VERSION, ...(addsTax ? ["tax"] : [])].join(" ");

/** Returns a plan that owners can buy. Throws 403 tier_not_self_serve and 422 invalid_choice. */
export function requireSelfServe(tierId: string): PaidTier {
  if (tierId === "enterprise")
    throw refuse(403, "tier_not_self_serve", "The enterprise plan is by agreement. Ask the operator for it.");
  if (!isPaidTier(tierId)) throw invalid("tierId", "invalid_choice", "tierId must be pro or team.");
  return tierId;
}

/** Throws 403 direct_agreement and 409 subscription_exists for an account that cannot subscribe. */
export async function requireBuyer(pool: Pool, accountId: string): Promise<void> {
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
  conflict("subscription_exists", "The account has a subscription. Change its plan with PATCH to this path.");
