import type Stripe from "stripe";
import { invalid } from "../http/errors.ts";
import { need } from "../http/lookup.ts";
import { clearable, map, mergeMetadata, natural, object, oneOf, range, text } from "../http/params.ts";
import { listRoute, type Route, route, select } from "../http/routes.ts";
import { newId } from "../state/ids.ts";
import type { Payment } from "../state/state.ts";
import type { World } from "../state/world.ts";
import { isDisputed } from "./disputes.ts";

/** Refunds: money returned to a card. */
export function refundRoutes(world: World): Route[] {
  const { refunds, payments } = world.state;
  return [
    route(
      "POST",
      "/v1/refunds",
      object<Stripe.RefundCreateParams>({
        amount: natural,
        charge: text,
        metadata: clearable(map),
        payment_intent: text,
        reason: oneOf("duplicate", "fraudulent", "requested_by_customer"),
      }),
      ({ amount, charge, payment_intent: intent, metadata, reason }) => {
        const payment = [...payments.values()].find(
          (one) => one.id === intent || (charge !== undefined && one.charge === charge),
        );
        if (!payment) throw invalid(`No such charge: '${charge ?? intent}'`, "charge", "resource_missing");
        return refund(world, payment, {
          amount: amount ?? payment.amount - payment.refunded,
          reason: reason ?? null,
          metadata: mergeMetadata({}, metadata),
        });
      },
    ),
    route("GET", "/v1/refunds/:id", object({}), (_, id) => need(refunds, "refund", id!)),
    listRoute(
      "/v1/refunds",
      object<Stripe.RefundListParams>({ charge: text, created: range, payment_intent: text }),
      (filter) => select(refunds.values(), filter),
    ),
  ];
}

type RefundInput = { amount: number; reason: Stripe.Refund.Reason | null; metadata: Stripe.Metadata };

/** Refunds part of a payment, at most what is not refunded yet. */
export function refund(world: World, payment: Payment, input: RefundInput): Stripe.Refund {
  const { state, clock, emit } = world;
  if (isDisputed(world, payment))
    throw invalid(`Charge ${payment.charge} has been charged back.`, "charge", "charge_disputed");
  const left = payment.amount - payment.refunded;
  if (left === 0)
    throw invalid(`Charge ${payment.charge} has already been refunded.`, "charge", "charge_already_refunded");
  if (input.amount < 1 || input.amount > left)
    throw invalid(
      `Refund amount (${input.amount}) is greater than unrefunded amount on charge (${left}), or zero.`,
      "amount",
    );
  payment.refunded += input.amount;
  const row = {
    id: newId("re"),
    object: "refund",
    amount: input.amount,
    balance_transaction: null,
    charge: payment.charge,
    created: clock.now(),
    currency: "usd",
    customer: payment.customer,
    customer_account: null,
    metadata: input.metadata,
    payment_intent: payment.id,
    payment_method: payment.payment_method,
    reason: input.reason,
    receipt_number: null,
    source_transfer_reversal: null,
    status: "succeeded",
    transfer_reversal: null,
  } satisfies Stripe.Refund;
  state.refunds.set(row.id, row);
  emit("refund.created", row);
  return row;
}

/** Makes a refund fail, as a bank may days later: the platform has the money again. */
export function failRefund({ state, emit }: World, id: string): Stripe.Refund {
  const row = need(state.refunds, "refund", id);
  if (row.status !== "succeeded") throw invalid("This refund has failed already.", "id");
  const payment = state.payments.get(String(row.payment_intent));
  if (payment) payment.refunded -= row.amount;
  Object.assign(row, {
    status: "failed",
    failure_reason: "expired_or_canceled_card",
  } satisfies Partial<Stripe.Refund>);
  emit("refund.updated", row);
  emit("refund.failed", row);
  return row;
}
