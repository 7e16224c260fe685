import type { ConnectError } from "@connectrpc/connect";
import { isEndedByDatabase, isPeerUnavailable, isUnreachable } from "../failures.ts";
import { invalid, isRefusal, refuse, unavailable } from "./refusals.ts";

// PostgreSQL does not store U+0000. These are its codes for one in a text, or in JSON.
const NUL_IN_TEXT = ["22021", "22P05"];

/** Returns the error that the caller may see for whatever a handler threw, and whether it was unexpected. */
export function toPublicError(
  error: unknown,
  requestId: string,
): { error: ConnectError; unexpected: boolean } {
  if (isRefusal(error)) return { error, unexpected: false };
  if (isUnreachable(error) || isEndedByDatabase(error)) return { error: unavailable(), unexpected: true };
  if (NUL_IN_TEXT.includes(String((error as { code?: unknown } | null)?.code)))
    return {
      error: invalid("", "invalid_text", "A text must not contain the character U+0000."),
      unexpected: false,
    };
  if (isPeerUnavailable(error)) return { error: unavailable(), unexpected: false };
  return {
    error: refuse(
      500,
      "internal",
      `Something went wrong on our side. Give this request id to the operator: ${requestId}`,
    ),
    unexpected: true,
  };
}
