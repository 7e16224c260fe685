import Stripe from "stripe";

/** How far the time of a signature may be from now, in seconds: an older one may be a replay, a later one is no time. */
const TOLERANCE_SECONDS = 300;

/** The last second that PostgreSQL and JavaScript both know. */
const LAST_SECOND = Date.UTC(9999, 11, 31) / 1_000;

/** An id or a type of Stripe. */
const NAME = /^[\w.-]{1,255}$/;

/** Returns the payload as it was signed with one of the secrets, and not too long ago; undefined when none signed it. */
export function verifySignature(payload: Buffer, signature: string, secrets: string[]): string | undefined {
  if (!isNow(signature)) return undefined;
  for (const secret of secrets) {
    try {
      Stripe.webhooks.signature!.verifyHeader(payload, signature, secret, TOLERANCE_SECONDS);
      return payload.toString();
    } catch (error) {
      if (!(error instanceof Stripe.errors.StripeSignatureVerificationError)) throw error;
    }
  }
  return undefined;
}

// Stripe's library takes the last of several times, accepts what is no number, and what is in the future.
function isNow(signature: string): boolean {
  const times = signature.split(",").filter((part) => part.startsWith("t="));
  const at = /^t=(\d{1,12})$/.exec(times[0] ?? "")?.[1];
  return (
    times.length === 1 && at !== undefined && Math.abs(Date.now() / 1_000 - Number(at)) <= TOLERANCE_SECONDS
  );
}

/** Returns the event that a signed text is; undefined for anything else, whatever its shape. */
export function readEvent(text: string): Stripe.Event | undefined {
  let event: unknown;
  try {
    event = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (!isObject(event) || event.object !== "event") return undefined;
  const { id, type, created, livemode, data } = event;
  const isNamed = isName(id) && isName(type);
  const isTime = Number.isInteger(created) && Number(created) >= 0 && Number(created) <= LAST_SECOND;
  if (!isNamed || !isTime || typeof livemode !== "boolean") return undefined;
  return isObject(data) && isObject(data.object) ? (event as unknown as Stripe.Event) : undefined;
}

/** Returns an id, also of an expanded object; undefined for what is none. */
export function idOf(reference: unknown): string | undefined {
  const id = isObject(reference) ? reference.id : reference;
  return isName(id) ? id : undefined;
}

const isName = (value: unknown): value is string => typeof value === "string" && NAME.test(value);

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);
