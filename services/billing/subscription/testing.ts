import { eventually } from "../../kit/testing/testing.ts";
import type { TestBilling } from "../testing.ts";

/** Subscribes an account on the provider's page, and returns the subscription once all of it is recorded. */
export async function subscribe(
  billing: TestBilling,
  accountId: string,
  { tierId = "pro", cadence = "monthly" } = {},
) {
  const owner = billing.as(accountId);
  const { checkoutUrl } = await owner.createSubscription({ accountId, tierId, cadence });
  await billing.pay(checkoutUrl);
  return eventually("the subscription is recorded", async () => {
    const found = await owner.getSubscription({ accountId }).catch(() => undefined);
    return found?.items.some(({ kind }) => kind === "compute") && found.invoices.length > 0 && found;
  });
}
