import Stripe from "stripe";
import type { Logger } from "../../kit/log.ts";
import type { Pool } from "../../kit/postgres/db.ts";
import { refuse } from "../../kit/rpc/errors.ts";
import type { Provider } from "../stripe/provider.ts";
import { webhooks } from "./metrics.ts";
import { addEvents, type StripeEvent } from "./sql.ts";

/** How old a webhook may be, in seconds; an older one may be a replay. */
const TOLERANCE_SECONDS = 300;

type Deps = { pool: Pool; provider: Provider; secrets: string[]; stored: () => void; log: Logger };

/**
 * Returns what takes a webhook of the payment provider: verified, stored, and no more, so that the provider is answered
 * at once. Throws 400 webhook_signature_invalid.
 */
export function createIntake({ pool, provider, secrets, stored, log }: Deps) {
  return async (payload: Uint8Array, signature: string): Promise<void> => {
    const event = verify(Buffer.from(payload), signature, secrets);
    if (!event) {
      webhooks.inc({ outcome: "refused" });
      throw invalidSignature();
    }
    if (event.livemode !== provider.live) {
      webhooks.inc({ outcome: "passed_over" });
      log.warn({ event: event.id }, "a webhook of the other mode of the payment provider is passed over");
      return;
    }
    const added = await addEvents(pool, [toStripeEvent(event)]);
    webhooks.inc({ outcome: added.length > 0 ? "stored" : "known" });
    if (added.length > 0) stored();
  };
}

/** Returns the event that a payload is, when one of the secrets signed it, not too long ago. */
function verify(payload: Buffer, signature: string, secrets: string[]): Stripe.Event | undefined {
  for (const secret of secrets) {
    try {
      return Stripe.webhooks.constructEvent(payload, signature, secret, TOLERANCE_SECONDS);
    } catch (error) {
      // Signed, but no event.
      if (!(error instanceof Stripe.errors.StripeSignatureVerificationError)) return undefined;
    }
  }
  return undefined;
}

/** Returns what is stored of an event. */
export function toStripeEvent(event: Stripe.Event): StripeEvent {
  const { id, type, created } = event;
  return { id, type, created: new Date(created * 1000), customerId: customerOf(event) };
}

type Reference = string | { id: string } | null;
type About = { id?: string; object?: string; customer?: Reference; payment_intent?: Reference };

/** Returns the customer that an event is about, or the payment of a refund or a dispute; undefined for none of them. */
function customerOf({ data }: Stripe.Event): string | undefined {
  const about = data.object as About;
  if (about.object === "customer") return about.id;
  if (about.object === "refund" || about.object === "dispute") return idOf(about.payment_intent);
  // A payment method that was detached says whose it was.
  return idOf(about.customer ?? (data.previous_attributes as About | undefined)?.customer);
}

const idOf = (about: Reference | undefined) => (typeof about === "object" ? about?.id : about);

const invalidSignature = () =>
  refuse(400, "webhook_signature_invalid", "The signature does not belong to this body, or is too old.");
