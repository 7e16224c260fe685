import Stripe from "stripe";
import type { Logger } from "../../kit/log.ts";
import { refuse } from "../../kit/rpc/refusals.ts";

/** How long one request to Stripe may take, and how often the SDK repeats one that got no answer, 429 or 5xx. */
const TIMEOUT_MS = 8_000;
const RETRIES = 1;
/** After so many failures in a row, Stripe is not asked for so long. */
const FAILURES = 5;
const PAUSE_MS = 30_000;
/** While requests wait and Stripe has answered none for so long, it hangs. Shorter than the wait for a connection. */
const SILENCE_MS = 4_000;

type Options = {
  stripeKey?: string | undefined;
  stripeUrl?: string | undefined;
  stripeInstallation?: string | undefined;
  stripeTax?: "on" | "off";
};

/** The payment provider, as the rest of billing asks it. */
export type Provider = {
  /** Whether a key is set. */
  readonly configured: boolean;
  /** Whether its events are those of real money; other events are not this installation's. */
  readonly live: boolean;
  /** The name of this installation there; "" if it has none (docs/billing.md#two-installations). */
  readonly installation: string;
  /** Whether it adds taxes to what is sold from now on (docs/billing.md#taxes). */
  readonly addsTax: boolean;
  /** Whether requests wait for it that it does not answer. */
  hangs: () => boolean;
  /**
   * Runs requests to Stripe. A failure that is not in `expected` (codes of Stripe, such as resource_missing) is thrown
   * as 502 payment_provider_unavailable, and logged once; one that is expected as Stripe's own error.
   */
  ask: <T>(work: (stripe: Stripe) => Promise<T>, ...expected: string[]) => Promise<T>;
};

/** Returns a provider that asks Stripe with the key, or refuses everything without one. */
export function createProvider(options: Options, log: Logger): Provider {
  const { stripeKey, stripeUrl, stripeInstallation = "", stripeTax = "off" } = options;
  const stripe = stripeKey === undefined ? undefined : createStripe(stripeKey, stripeUrl);
  let failures = 0;
  let pausedUntil = 0;
  let waiting = 0;
  let heardAt = 0;
  const heard = () => {
    heardAt = Date.now();
  };
  stripe?.on("response", heard);

  async function ask<T>(work: (stripe: Stripe) => Promise<T>, ...expected: string[]): Promise<T> {
    if (!stripe) {
      log.warn(
        {},
        "Nothing can be bought: no payment provider is set up. Set STRIPE_SECRET_KEY (Helm: billing.existingSecret).",
      );
      throw unavailable("This installation has no payment provider, so nothing can be bought.");
    }
    if (Date.now() < pausedUntil) throw unavailable();
    if (waiting++ === 0) heard();
    try {
      const result = await work(stripe);
      failures = 0;
      return result;
    } catch (error) {
      if (!(error instanceof Stripe.errors.StripeError)) throw error;
      if (error.code !== undefined && expected.includes(error.code)) throw error;
      if (isOutage(error) && ++failures >= FAILURES) {
        pausedUntil = Date.now() + PAUSE_MS;
        failures = 0;
      }
      const { type, code, param, requestId, statusCode } = error;
      log.error(
        { type, code, param, requestId, statusCode },
        "the payment provider refused or did not answer",
      );
      throw Object.assign(unavailable(), { cause: error });
    } finally {
      waiting--;
    }
  }

  return {
    configured: stripe !== undefined,
    live: stripeKey?.includes("_live_") ?? false,
    installation: stripeInstallation,
    addsTax: stripeTax === "on",
    hangs: () => waiting > 0 && Date.now() - heardAt > SILENCE_MS,
    ask,
  };
}

/** Whether Stripe did not answer, or not for this key; anything else is about the request. */
function isOutage(error: Stripe.errors.StripeError): boolean {
  const { StripeConnectionError, StripeAPIError, StripeRateLimitError } = Stripe.errors;
  const { StripeAuthenticationError, StripePermissionError } = Stripe.errors;
  return [
    StripeConnectionError,
    StripeAPIError,
    StripeRateLimitError,
    StripeAuthenticationError,
    StripePermissionError,
  ].some((kind) => error instanceof kind);
}

/** Returns what is read from Stripe; undefined when Stripe does not have it. */
export async function readIfThere<T>(
  provider: Provider,
  read: (stripe: Stripe) => Promise<T>,
): Promise<T | undefined> {
  try {
    return await provider.ask(read, "resource_missing");
  } catch (error) {
    if (isStripeError(error, "resource_missing")) return undefined;
    throw error;
  }
}

/** Whether an error is Stripe's, with this code. */
export function isStripeError(error: unknown, code: string): boolean {
  return error instanceof Stripe.errors.StripeError && error.code === code;
}

/** Whether an error, or its cause, is Stripe's answer that it does not do what was asked. */
export function isRefused(error: unknown): boolean {
  return refusedWith(error) !== undefined;
}

/** Returns the code of Stripe's answer that it does not do what was asked; undefined for any other error. */
export function refusedWith(error: unknown): string | undefined {
  const answer = error instanceof Stripe.errors.StripeError ? error : (error as { cause?: unknown }).cause;
  if (!(answer instanceof Stripe.errors.StripeError)) return undefined;
  return [400, 402, 404].includes(answer.statusCode ?? 0) ? (answer.code ?? answer.type) : undefined;
}

/** Returns the time of Stripe's clock as it answered, in whole seconds since 1970. */
export function timeOf({ lastResponse }: Stripe.Response<object>): number {
  const time = Date.parse(lastResponse.headers.date ?? "");
  return Math.floor((Number.isNaN(time) ? Date.now() : time) / 1_000);
}

function createStripe(key: string, at: string | undefined): Stripe {
  const options = { timeout: TIMEOUT_MS, maxNetworkRetries: RETRIES, telemetry: false };
  if (at === undefined) return new Stripe(key, options);
  const { hostname, port, protocol } = new URL(at);
  const scheme = protocol === "https:" ? "https" : "http";
  return new Stripe(key, {
    ...options,
    host: hostname,
    port: port || (scheme === "https" ? 443 : 80),
    protocol: scheme,
  });
}

/** Returns 502 payment_provider_unavailable. */
export const unavailable = (
  message = "The payment provider does not answer. Nothing was changed; try again later.",
) => refuse(502, "payment_provider_unavailable", message);
