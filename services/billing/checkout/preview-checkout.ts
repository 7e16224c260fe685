import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type Stripe from "stripe";
import type { Pool } from "../../kit/postgres/db.ts";
import type { ReadMembers } from "../accounts/read-members.ts";
import { findCustomer } from "../accounts/sql.ts";
import type { Coupons, SavedCode } from "../coupons/saved-code.ts";
import { chargeOf } from "../invoices/charge.ts";
import { netCents, preTaxCents, priceOf, withAllLines } from "../invoices/subscribed-lines.ts";
import { readTaxRates, taxOn } from "../invoices/taxes.ts";
import { toUsd } from "../money/nano-usd.ts";
import { type Cadence, extraSeats, PLANS, termCents } from "../pricing/plans.ts";
import type { PriceId } from "../pricing/price-ids.ts";
import { monthsAfter, termMonths } from "../pricing/terms.ts";
import { isStripeError, type Provider, timeOf } from "../stripe/provider.ts";
import { itemsOf, requireBuyer, requireSelfServe } from "./open-checkout.ts";

type Deps = {
  pool: Pool;
  provider: Provider;
  priceId: PriceId;
  readMembers: ReadMembers;
  coupons: Coupons;
  /** What an account owes with its next subscription, in nano-USD. */
  findOwed: (accountId: string) => Promise<bigint>;
};

/**
 * Returns what subscribing would charge now and at the first renewal, by the provider's clock
 * (docs/billing.md#subscribing). Changes nothing. Throws as a checkout does.
 */
export type PreviewCheckout = ReturnType<typeof createPreviewCheckout>;

export function createPreviewCheckout({ pool, provider, priceId, readMembers, coupons, findOwed }: Deps) {
  return async (accountId: string, tierId: string, cadence: Cadence) => {
    const tier = requireSelfServe(tierId);
    await requireBuyer(pool, accountId);
    const { count } = await readMembers(accountId);
    const seats = extraSeats(tier, count);
    const saved = await coupons.checkSaved(accountId, { tier, cadence });
    const customer = await findCustomer(pool, accountId);
    const items = await itemsOf(priceId, { tier, cadence, seats });
    const discounts = saved && "source" in saved ? [saved.source] : [];
    const asked = {
      ...(customer && { customer }),
      subscription_details: { items },
      ...(discounts.length > 0 && { discounts }),
    };
    const { invoice, isTaxKnown } = await readPreview(provider, asked);
    const unpaid = customer ? await readUnpaid(provider, customer) : { balance: 0, owed: 0 };
    const prices = items.map(({ price }) => price);
    const bought = invoice.lines.data.filter((line) => prices.includes(priceOf(line) ?? ""));
    const list = sum(bought.map(({ amount }) => amount));
    const net = sum(bought.map(preTaxCents));
    const preTax = sum(invoice.lines.data.map(preTaxCents));
    const total = sum(invoice.lines.data.map(netCents));
    const rates = await provider.ask((stripe) => readTaxRates(stripe, bought));
    const listTax = sum(bought.map((line) => taxOn(line.amount, line, rates)));
    const netTax = sum(bought.map((line) => netCents(line) - preTaxCents(line)));
    const charged = chargeOf(total, { cents: unpaid.balance });
    const at = timeOf(invoice);
    const months = termMonths(cadence);
    const kinds = [
      { kind: "plan", quantity: 1, unitCents: termCents(PLANS[tier].monthlyCents, cadence) },
      { kind: "seat", quantity: seats, unitCents: termCents(PLANS[tier].seatCents, cadence) },
    ];
    return {
      lines: kinds
        .filter(({ quantity }) => quantity > 0)
        .map(({ kind, quantity, unitCents }) => ({
          kind,
          quantity,
          unitPriceUsd: unitCents / 100,
          amountUsd: (quantity * unitCents) / 100,
        })),
      ...(saved && "source" in saved && { coupon: saved.coupon }),
      ...(saved && "reason" in saved && { couponRefusal: { code: saved.coupon.code, reason: saved.reason } }),
      discountUsd: (list - net) / 100,
      otherUsd: (preTax - net) / 100,
      ...(provider.addsTax && isTaxKnown && { taxUsd: (total - preTax) / 100 }),
      taxAtCheckout: provider.addsTax && !isTaxKnown,
      balanceUsd: (charged - total) / 100,
      totalUsd: charged / 100,
      renewsAt: timestampFromMs(monthsAfter(at, months) * 1_000),
      renewalUsd: (isDiscounted(saved, months) ? net + netTax : list + listTax) / 100,
      owedUsd: unpaid.owed / 100,
      owedComputeUsd: toUsd(await findOwed(accountId)),
    };
  };
}

/**
 * Reads the first invoice of a subscription as the provider would make it: with tax if that is added, and if the provider
 * knows where the customer is, who says so on the payment page.
 */
async function readPreview(
  provider: Provider,
  asked: Stripe.InvoiceCreatePreviewParams,
): Promise<{ invoice: Stripe.Response<Stripe.Invoice>; isTaxKnown: boolean }> {
  const preview = (more: Stripe.InvoiceCreatePreviewParams) =>
    provider.ask(
      async (stripe) => withAllLines(stripe, await stripe.invoices.createPreview({ ...asked, ...more })),
      NO_LOCATION,
    );
  if (!provider.addsTax || !asked.customer) return { invoice: await preview({}), isTaxKnown: false };
  try {
    return { invoice: await preview({ automatic_tax: { enabled: true } }), isTaxKnown: true };
  } catch (error) {
    if (!isStripeError(error, NO_LOCATION)) throw error;
    return { invoice: await preview({}), isTaxKnown: false };
  }
}

const NO_LOCATION = "customer_tax_location_invalid";

/** Whether the discount of a code still applies at the first renewal, so many months later. */
function isDiscounted(saved: SavedCode | undefined, months: number): boolean {
  if (!saved || !("source" in saved)) return false;
  const { duration, duration_in_months: term } = saved.terms;
  return duration === "forever" || (duration === "repeating" && (term ?? 0) > months);
}

/** Reads a customer's balance, and what the customer's open invoices ask for. */
async function readUnpaid(provider: Provider, id: string): Promise<{ balance: number; owed: number }> {
  const [customer, { data: open }] = await provider.ask((stripe) =>
    Promise.all([
      stripe.customers.retrieve(id),
      stripe.invoices.list({ customer: id, status: "open", limit: 100 }),
    ]),
  );
  const owed = sum(open.map(({ amount_remaining }) => amount_remaining));
  return { balance: customer.deleted ? 0 : customer.balance, owed };
}

const sum = (amounts: number[]) => amounts.reduce((total, amount) => total + amount, 0);
