import { createHash } from "node:crypto";
import type { State } from "../state/state.ts";
import { StripeError } from "./errors.ts";

/** How long a key is remembered. */
const KEPT_SECONDS = 24 * 60 * 60;

/** The answer to a request with a key: what a repetition gets, whether the first succeeded or not. */
export type SavedResponse = { request: string; status: number; body: object; id: string; created: number };

/** Returns what identifies a request's content. */
export function fingerprint(method: string, path: string, body: string): string {
  return createHash("sha256").update(`${method} ${path}\n${body}`).digest("base64url");
}

/** Returns the answer that a key was given before; throws idempotency_error when it was for another request. */
export function findResponse(
  state: State,
  key: string,
  request: string,
  now: number,
): SavedResponse | undefined {
  const saved = state.responses.get(key);
  if (!saved || saved.created + KEPT_SECONDS <= now) return undefined;
  if (saved.request !== request)
    throw new StripeError(
      400,
      "idempotency_error",
      `Keys for idempotent requests can only be used with the same parameters they were first used with. Try using a key other than '${key}' if you meant to execute a different request.`,
    );
  return saved;
}

/** Keeps the answer for repetitions, and forgets those that are too old. */
export function saveResponse(state: State, key: string, response: SavedResponse): void {
  for (const [old, { created }] of state.responses) {
    if (created + KEPT_SECONDS > response.created) break;
    state.responses.delete(old);
  }
  // At the end, where the newest are.
  state.responses.delete(key);
  state.responses.set(key, response);
}
