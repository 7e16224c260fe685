type ErrorType = "api_error" | "card_error" | "idempotency_error" | "invalid_request_error";

/** An error response of Stripe's API. */
export class StripeError extends Error {
  readonly status: number;
  readonly type: ErrorType;
  readonly details: { code?: string; param?: string; decline_code?: string };

  constructor(status: number, type: ErrorType, message: string, details: StripeError["details"] = {}) {
    super(message);
    this.status = status;
    this.type = type;
    this.details = details;
  }

  /** Returns the body of the response. */
  toBody(): { error: object } {
    return { error: { type: this.type, message: this.message, ...this.details } };
  }
}

/** Returns a 400 invalid_request_error. */
export function invalid(message: string, param?: string, code?: string): StripeError {
  return new StripeError(400, "invalid_request_error", message, { code, param });
}

/** Returns 404 resource_missing (400 where the id is a parameter and not the path). */
export function missing(what: string, id: string, param = "id"): StripeError {
  return new StripeError(param === "id" ? 404 : 400, "invalid_request_error", `No such ${what}: '${id}'`, {
    code: "resource_missing",
    param,
  });
}

/** Returns 402: the card was declined. */
export function declined(decline: string): StripeError {
  const message =
    decline === "insufficient_funds" ? "Your card has insufficient funds." : "Your card was declined.";
  return new StripeError(402, "card_error", message, { code: "card_declined", decline_code: decline });
}
