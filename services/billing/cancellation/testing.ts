import { isDeepStrictEqual } from "node:util";
import { expect } from "vitest";
import { RefundChangedSchema, TierChangedSchema } from "../../../proto/gen/berth/billing/v1/events_pb.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { type Choice, subscribe } from "../subscription/testing.ts";
import type { TestBilling } from "../testing.ts";

export const DAY = 86_400;

/** An account with so many members whose owner has subscribed, for a year unless told otherwise, and what tests ask about it. */
export async function subscriber(
  billing: TestBilling,
  { members = 1, ...choice }: Choice & { members?: number } = {},
) {
  const accountId = billing.account(members);
  const owner = billing.as(accountId);
  const found = await subscribe(billing, accountId, { cadence: "annual", ...choice });
  const { stripe } = billing.stripe;
  const atStripe = () => stripe.subscriptions.retrieve(found.id);
  const tiers = async () => (await billing.published(TierChangedSchema, accountId)).map(({ tier }) => tier);
  const customer = (await atStripe()).customer as string;
  return {
    accountId,
    owner,
    id: found.id,
    customer,
    atStripe,
    cancel: () => owner.cancelSubscription({ accountId }),
    preview: () => owner.previewCancellation({ accountId }),
    /** What was refunded to the account's cards, in cents, each refund on its own. */
    refunds: async () => {
      const { data } = await stripe.refunds.list({ limit: 100 });
      return data.filter((refund) => refund.customer === customer).map(({ amount }) => amount);
    },
    notes: async () => (await stripe.creditNotes.list({ customer, limit: 100 })).data,
    balance: async () => {
      const found = await stripe.customers.retrieve(customer);
      return found.deleted ? undefined : found.balance;
    },
    invoices: async () => (await stripe.invoices.list({ customer, limit: 100 })).data,
    /** How far the cancellation is. */
    step: async () => {
      const { rows } = await billing.pool.query<{ step: string }>(
        "select step from cancellations where subscription_id = $1",
        [found.id],
      );
      return rows[0]?.step;
    },
    /** Waits until this was reported of the refund, and nothing else. */
    told: (...expected: [status: string, cents: bigint][]) =>
      eventually(`${expected.join("; ")} is reported`, async () => {
        const told = await billing.published(RefundChangedSchema, accountId);
        const found = told.map(({ status, amountCents }) => [status, amountCents]);
        return found.length >= expected.length && isDeepStrictEqual(found, expected);
      }),
    /** Waits until billing has processed what the provider reported. */
    isFree: () =>
      eventually("the account is on the free plan", async () => (await tiers()).at(-1) === "free"),
    tiers,
  };
}

export type Subscriber = Awaited<ReturnType<typeof subscriber>>;

/** A card that pays the first invoice, and fails at renewals. */
export const FAILS_LATER = "4000000000000341";

/** Moves the clock to some minutes after the end of the present period of a subscription's item. */
export async function pass(
  { stripe: { clock } }: TestBilling,
  { atStripe }: Subscriber,
  kind: "plan" | "compute",
  minutes: number,
): Promise<void> {
  const item = (await atStripe()).items.data.find(({ price }) => price.metadata.kind === kind);
  clock.advance(item!.current_period_end + minutes * 60 - clock.now());
}

/** Cancels, and checks that the answer is what the preview said, and that so much was refunded. Returns it. */
export async function cancelAsPreviewed(subscriber: Subscriber) {
  const { $typeName: _, asOf: __, ...preview } = await subscriber.preview();
  const { $typeName: ___, asOf: ____, status: _____, ...answer } = await subscriber.cancel();
  expect(answer).toEqual(preview);
  const refunded = (await subscriber.refunds()).reduce((sum, amount) => sum + amount, 0);
  expect(refunded).toBe(Math.round((answer.refund?.amountUsd ?? 0) * 100));
  return answer;
}
