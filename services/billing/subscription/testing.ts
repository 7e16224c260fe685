import { eventually } from "../../kit/testing/testing.ts";
import type { Cadence } from "../pricing/plans.ts";
import type { TestBilling } from "../testing.ts";

export type Choice = {
  tierId?: string;
  cadence?: Cadence;
  card?: string;
  /** A promo code. */
  code?: string;
  /** The country that the payer gives. */
  country?: string;
};

/** Buys a plan for an account, and pays on the provider's page, whether billing hears of it or not. */
export async function buy(billing: TestBilling, accountId: string, choice: Choice = {}): Promise<void> {
  const { tierId = "pro", cadence = "monthly", card, code, country } = choice;
  const owner = billing.as(accountId);
  if (code) await owner.redeemCoupon({ accountId, code });
  const { checkoutUrl } = await owner.createSubscription({ accountId, tierId, cadence });
  await billing.pay(checkoutUrl, card, country);
}

/** Buys a plan for an account, and returns the subscription once all of it is recorded. */
export async function subscribe(billing: TestBilling, accountId: string, choice: Choice = {}) {
  await buy(billing, accountId, choice);
  return eventually("the subscription is recorded", async () => {
    const found = await billing
      .as(accountId)
      .getSubscription({ accountId })
      .catch(() => undefined);
    return found?.items.some(({ kind }) => kind === "compute") && found.invoices.length > 0 && found;
  });
}
