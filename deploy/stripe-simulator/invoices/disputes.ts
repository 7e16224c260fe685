import type Stripe from "stripe";
import { invalid } from "../http/errors.ts";
import { need } from "../http/lookup.ts";
import { clearable, flag, map, mergeMetadata, object, range, text } from "../http/params.ts";
import { listRoute, type Route, route, select } from "../http/routes.ts";
import { newId } from "../state/ids.ts";
import type { Payment } from "../state/state.ts";
import type { World } from "../state/world.ts";

/** How long the platform may answer a dispute. */
const RESPOND_SECONDS = 7 * 24 * 60 * 60;

/** What Stripe's test mode decides about a dispute by, in the evidence's uncategorized_text. */
const DECISIONS: Record<string, "won" | "lost"> = { winning_evidence: "won", losing_evidence: "lost" };

/** Disputes: payments that a payer reports to the bank. */
export function disputeRoutes(world: World): Route[] {
  const { disputes } = world.state;
  const needDispute = (id: string) => need(disputes, "dispute", id);
  return [
    listRoute(
      "/v1/disputes",
      object<Stripe.DisputeListParams>({ charge: text, created: range, payment_intent: text }),
      (filter) => select(disputes.values(), filter),
    ),
    route("GET", "/v1/disputes/:id", object({}), (_, id) => needDispute(id!)),
    route(
      "POST",
      "/v1/disputes/:id",
      object<Stripe.DisputeUpdateParams>({
        evidence: object<Stripe.DisputeUpdateParams.Evidence>({ uncategorized_text: text }),
        metadata: clearable(map),
        submit: flag,
      }),
      ({ evidence, metadata, submit = true }, id) => {
        const dispute = needDispute(id!);
        if (!dispute.status.endsWith("needs_response"))
          throw invalid("This dispute is already closed, or has been answered.", "id");
        dispute.metadata = mergeMetadata(dispute.metadata, metadata);
        Object.assign(dispute.evidence, evidence);
        if (!submit) return dispute;
        dispute.evidence_details.submission_count++;
        const decision = DECISIONS[evidence?.uncategorized_text ?? ""];
        if (decision) return decide(world, dispute, decision);
        dispute.status = isInquiry(dispute) ? "warning_under_review" : "under_review";
        world.emit("charge.dispute.updated", dispute);
        return dispute;
      },
    ),
    route("POST", "/v1/disputes/:id/close", object({}), (_, id) => decide(world, needDispute(id!), "lost")),
  ];
}

type DisputeInput = { amount?: number; reason?: string; inquiry?: boolean };

/** Disputes a payment: the bank takes the money back until it decides; an inquiry takes none. */
export function dispute(world: World, payment: Payment, input: DisputeInput): Stripe.Dispute {
  const { state, clock, emit } = world;
  const { amount = payment.amount - payment.refunded, reason = "fraudulent", inquiry = false } = input;
  if (amount < 1 || amount > payment.amount - payment.refunded)
    throw invalid("The amount of a dispute is at most what is not refunded of the payment.", "amount");
  const row = {
    id: newId("du"),
    object: "dispute",
    amount,
    balance_transactions: [],
    charge: payment.charge,
    created: clock.now(),
    currency: "usd",
    enhanced_eligibility_types: [],
    evidence: noEvidence(),
    evidence_details: {
      due_by: clock.now() + RESPOND_SECONDS,
      enhanced_eligibility: {},
      has_evidence: false,
      past_due: false,
      submission_count: 0,
      submission_method: "manual",
    },
    intended_submission_method: null,
    is_charge_refundable: inquiry,
    livemode: false,
    metadata: {},
    payment_intent: payment.id,
    reason,
    status: inquiry ? "warning_needs_response" : "needs_response",
  } satisfies Stripe.Dispute;
  state.disputes.set(row.id, row);
  emit("charge.dispute.created", row);
  if (!inquiry) emit("charge.dispute.funds_withdrawn", row);
  return row;
}

/** Whether a payment can be refunded: not while it is disputed, nor what a bank has returned. */
export function isDisputed({ state }: Pick<World, "state">, payment: Payment): boolean {
  return [...state.disputes.values()].some(
    (one) => one.payment_intent === payment.id && !isInquiry(one) && one.status !== "won",
  );
}

function decide(world: World, dispute: Stripe.Dispute, decision: "won" | "lost"): Stripe.Dispute {
  if (["won", "lost", "warning_closed"].includes(dispute.status))
    throw invalid("This dispute is already closed.", "id");
  const inquiry = isInquiry(dispute);
  dispute.status = inquiry ? "warning_closed" : decision;
  world.emit("charge.dispute.closed", dispute);
  if (!inquiry && decision === "won") world.emit("charge.dispute.funds_reinstated", dispute);
  return dispute;
}

const isInquiry = ({ status }: Stripe.Dispute) => status.startsWith("warning_");

function noEvidence(): Stripe.Dispute.Evidence {
  return {
    access_activity_log: null,
    billing_address: null,
    cancellation_policy: null,
    cancellation_policy_disclosure: null,
    cancellation_rebuttal: null,
    customer_communication: null,
    customer_email_address: null,
    customer_name: null,
    customer_purchase_ip: null,
    customer_signature: null,
    duplicate_charge_documentation: null,
    duplicate_charge_explanation: null,
    duplicate_charge_id: null,
    enhanced_evidence: {},
    product_description: null,
    receipt: null,
    refund_policy: null,
    refund_policy_disclosure: null,
    refund_refusal_explanation: null,
    service_date: null,
    service_documentation: null,
    shipping_address: null,
    shipping_carrier: null,
    shipping_date: null,
    shipping_documentation: null,
    shipping_tracking_number: null,
    uncategorized_file: null,
    uncategorized_text: null,
  };
}
