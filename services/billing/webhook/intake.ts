import type Stripe from "stripe";
import type { Logger } from "../../kit/log.ts";
import type { Pool } from "../../kit/postgres/db.ts";
import { refuse } from "../../kit/rpc/refusals.ts";
import { addEvents, type StripeEvent } from "../due/sql.ts";
import { isOthers } from "../stripe/installation.ts";
import type { Provider } from "../stripe/provider.ts";
import { webhooks } from "./metrics.ts";
import { idOf, readEvent, verifySignature } from "./verify-event.ts";

type Deps = { pool: Pool; provider: Provider; secrets: string[]; stored: () => void; log: Logger };

/**
 * Returns a function that takes a webhook of the payment provider: verifies and stores it, and no more, so that the
 * provider is answered at once. Throws 400 webhook_signature_invalid, and 400 malformed_request for what is signed but no
 * event.
 */
export function createIntake({ pool, provider, secrets, stored, log }: Deps) {
  return async (payload: Uint8Array, signature: string): Promise<void> => {
    const signed = verifySignature(Buffer.from(payload), signature, secrets);
    const event = signed === undefined ? undefined : readEvent(signed);
    if (!event) {
      webhooks.inc({ outcome: "refused" });
      throw signed === undefined ? invalidSignature() : noEvent();
    }
    if (event.livemode !== provider.live) {
      webhooks.inc({ outcome: "passed_over" });
      log.warn({ event: event.id }, "a webhook of the payment provider's other mode is ignored");
      return;
    }
    if (isOthers(provider.installation, event)) {
      webhooks.inc({ outcome: "other_installation" });
      return;
    }
    const added = await addEvents(pool, [toStripeEvent(event)]);
    webhooks.inc({ outcome: added.length > 0 ? "stored" : "known" });
    if (added.length > 0) stored();
  };
}

/** Returns what is stored of an event. */
export function toStripeEvent(event: Stripe.Event): StripeEvent {
  const { id, type, created } = event;
  return { id, type, created: new Date(created * 1000), ...subjectOf(event) };
}

type EventObject = { id?: unknown; object?: unknown; customer?: unknown; payment_intent?: unknown };

/**
 * Returns the customer that an event is about, or the payment of a refund or a dispute: these name no customer in every
 * version of the provider's API.
 */
function subjectOf({ data }: Stripe.Event): Pick<StripeEvent, "customerId" | "paymentId"> {
  const about = data.object as EventObject;
  if (about.object === "customer") return { customerId: idOf(about.id) };
  if (about.object === "refund" || about.object === "dispute")
    return { paymentId: idOf(about.payment_intent) };
  // A payment method that was detached says whose it was.
  const former = data.previous_attributes as EventObject | null | undefined;
  return { customerId: idOf(about.customer ?? former?.customer) };
}

const invalidSignature = () =>
  refuse(
    400,
    "webhook_signature_invalid",
    "The signature does not belong to this body, or its time is not now.",
  );

const noEvent = () =>
  refuse(400, "malformed_request", "The body is signed, but is no event of the payment provider.");
