import Stripe from "stripe";
import type { Logger } from "../../kit/log.ts";
import type { Pool } from "../../kit/postgres/db.ts";
import { refuse } from "../../kit/rpc/errors.ts";
import type { Provider } from "../stripe/provider.ts";
import { addEvent } from "./sql.ts";

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
    if (event.livemode !== provider.live) {
      log.warn({ event: event.id }, "a webhook of the other mode of the payment provider is passed over");
      return;
    }
    const { id, type, created } = event;
    const customerId = customerOf(event);
    if ((await addEvent(pool, { id, type, created: new Date(created * 1000), customerId })) > 0) stored();
  };
}

function verify(payload: Buffer, signature: string, secrets: string[]): Stripe.Event {
  for (const secret of secrets) {
    try {
      return Stripe.webhooks.constructEvent(payload, signature, secret, TOLERANCE_SECONDS);
    } catch (error) {
      if (!(error instanceof Stripe.errors.StripeSignatureVerificationError)) break;
    }
  }
  throw refuse(
    400,
    "webhook_signature_invalid",
    "The signature does not belong to this body, or is too old.",
  );
}

/** Returns the customer that an event is about; undefined for one that is about none. */
export function customerOf({ type, data }: Stripe.Event): string | undefined {
  const object = data.object as { id?: string; object: string; customer?: string | { id: string } | null };
  if (object.object === "customer") return type === "customer.deleted" ? undefined : object.id;
  return typeof object.customer === "object" ? object.customer?.id : object.customer;
}
