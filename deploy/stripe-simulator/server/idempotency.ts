import { createHash } from "node:crypto";
import { StripeError } from "../http/errors.ts";
import type { SavedResponse, State } from "../state/state.ts";

/** How long a key is remembered. */
const KEPT_SECONDS = 24 * 60 * 60;

/** Returns a hash of a request's content. */
export function fingerprint(method: string, path: string, body: string): string {
  return createHash("sha256").update(`${method} ${path}\n${body}`).digest("base64url");
}

/** Returns the response stored under a key. Throws idempotency_error when it was for another request. */
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

/** Stores a response for repetitions of its request, and deletes expired ones. */
export function saveResponse(state: State, key: string, response: SavedResponse): void {
  for (const [old, { created }] of state.responses) {
    if (created + KEPT_SECONDS > response.created) break;
    state.responses.delete(old);
  }
  // Moves it to the end: the map is ordered by age.
  state.responses.delete(key);
  state.responses.set(key, response);
}
