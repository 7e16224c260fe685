import type { JsonObject } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { ProblemSchema } from "../../../proto/gen/berth/options/v1/options_pb.ts";

export type Detail = { path: string; reason: string; message: string };

const CODES: Record<number, Code> = {
  400: Code.InvalidArgument,
  401: Code.Unauthenticated,
  403: Code.PermissionDenied,
  404: Code.NotFound,
  409: Code.Aborted,
  412: Code.FailedPrecondition,
  413: Code.ResourceExhausted,
  422: Code.InvalidArgument,
  429: Code.ResourceExhausted,
  502: Code.Unavailable,
  503: Code.Unavailable,
};

/**
 * A refusal that the caller may read: HTTP status, code of docs/conventions.md#error-codes, a sentence that says what
 * to change, reasons per request member, and further members of the envelope.
 */
export function refuse(
  status: number,
  code: string,
  message: string,
  more: { details?: Detail[]; context?: JsonObject } = {},
): ConnectError {
  const problem = { status, code, message, details: more.details ?? [], context: more.context };
  return new ConnectError(message, CODES[status] ?? Code.Internal, undefined, [
    { desc: ProblemSchema, value: problem },
  ]);
}

/** 422 validation_failed with one reason. */
export function invalid(path: string, reason: string, message: string): ConnectError {
  return refuse(422, "validation_failed", message, { details: [{ path, reason, message }] });
}

/** What is wrong with a request member, as a sentence: `port must be a whole number.` No path is the whole body. */
export function sentence(path: string, words: string): string {
  return `${path || "The body"} ${words}${/[.?]$/.test(words) ? "" : "."}`;
}

/** 404 not_found. `what` names the resource: "project". */
export function notFound(what: string): ConnectError {
  return refuse(404, "not_found", `There is no such ${what}.`);
}

/** 409 with its code. */
export function conflict(code: string, message: string, context?: JsonObject): ConnectError {
  return refuse(409, code, message, { context });
}

/** 503 unavailable: the caller may try again. */
export function unavailable(message = "The service is not available right now. Try again."): ConnectError {
  return refuse(503, "unavailable", message);
}

/** Whether an error is a refusal made by the functions above, here or in a service that was asked. */
export function isRefusal(error: unknown): error is ConnectError {
  return error instanceof ConnectError && error.findDetails(ProblemSchema).length > 0;
}

// What PostgreSQL says when it cannot serve now: classes 08 connection, 53 resources and 57P shutdown, start-up
// and ended sessions; 25006 a former primary that only reads.
const DATABASE_AWAY = /^(08...|53...|57P..|25006)$/;
// What it says when it ended a wait: 55P03 for a lock, 57014 of a statement, 25P03 and 25P04 of a transaction.
const DATABASE_TIMEOUT = /^(55P03|57014|25P0[34])$/;
const SOCKET_AWAY = new Set([
  ...[
    "ECONNREFUSED",
    "ECONNRESET",
    "ECONNABORTED",
    "EPIPE",
    "ETIMEDOUT",
    "ENOTFOUND",
    "EAI_AGAIN",
    "ENOTCONN",
  ],
  ...["EHOSTUNREACH", "EHOSTDOWN", "ENETUNREACH", "ENETDOWN"],
  ...["ERR_STREAM_DESTROYED", "ERR_STREAM_WRITE_AFTER_END", "ERR_STREAM_PREMATURE_CLOSE"],
]);
// pg and pg-pool give these no code.
const SILENCE = /^Query read timeout$/;
const BUSY = /^timeout exceeded when trying to connect$/;
const CONNECTION_BROKEN = [
  SILENCE,
  BUSY,
  /^Connection terminated/,
  /^timeout expired$/,
  /^Client has encountered a connection error and is not queryable$/,
  /^Client was closed and is not queryable$/,
  /^Cannot use a pool after calling end on the pool$/,
  /^The server does not support SSL connections$/,
  /^There was an error establishing an SSL connection$/,
  /^Received unexpected \w+ message from backend/,
  /^received invalid response: /,
];

/** Whether a connection to the database did not answer a statement in time. */
export function isSilence(error: unknown): error is Error {
  return error instanceof Error && SILENCE.test(error.message);
}

/** Whether all connections of a pool were in use for too long. */
export function isBusy(error: unknown): boolean {
  return error instanceof Error && BUSY.test(error.message);
}

/** Whether a database or another service cannot be reached, however deep the error says so. */
export function isAway(error: unknown): boolean {
  const { code, message, cause } = (error ?? {}) as { code?: unknown; message?: unknown; cause?: unknown };
  if (typeof code === "string" && (DATABASE_AWAY.test(code) || SOCKET_AWAY.has(code))) return true;
  if (CONNECTION_BROKEN.some((broken) => broken.test(String(message)))) return true;
  return cause !== undefined && cause !== error && isAway(cause);
}

/** Whether the database ended a wait by its settings: the same may succeed at another time. */
export function isTimeout(error: unknown): boolean {
  return DATABASE_TIMEOUT.test(String((error as { code?: unknown } | null)?.code));
}

const PEER_AWAY = [Code.Canceled, Code.DeadlineExceeded, Code.Unavailable];

/** Whether work failed for want of what it needs, not by a fault of its own: away, too slow, or ended meanwhile. */
export function isPassing(error: unknown): boolean {
  return (
    isAway(error) || isTimeout(error) || (error instanceof ConnectError && PEER_AWAY.includes(error.code))
  );
}

// The messages of the same causes, where nothing else is kept of an error. One without any is of an address at
// which nobody answered, under several names.
const PASSING_REASONS = [
  /^$/,
  ...CONNECTION_BROKEN,
  /^\[(unavailable|deadline_exceeded|canceled)\]/,
  /\b(connect|read|write|getaddrinfo|query\w*) E[A-Z_]{4,}/,
  /^canceling statement due to (statement timeout|lock timeout|user request)/,
  /^terminating connection /,
  /^the database system is /,
  /^sorry, too many clients|^too many connections for |^remaining connection slots are reserved/,
  /^could not extend file |No space left on device$/,
  /in a read-only transaction$/,
];

/** As `isPassing`, by an error's message alone. */
export function isPassingReason(message: string): boolean {
  return PASSING_REASONS.some((reason) => reason.test(message));
}

// PostgreSQL stores no U+0000, and says so with these codes wherever one arrives in a text, or in JSON.
const NUL_IN_TEXT = ["22021", "22P05"];

/** Turns whatever a handler threw into what may leave the service; `true` when it was unforeseen. */
export function toPublic(error: unknown, requestId: string): { error: ConnectError; unforeseen: boolean } {
  if (isRefusal(error)) return { error, unforeseen: false };
  if (isAway(error) || isTimeout(error)) return { error: unavailable(), unforeseen: true };
  if (NUL_IN_TEXT.includes(String((error as { code?: unknown } | null)?.code)))
    return {
      error: invalid("", "invalid_text", "A text may not hold the character U+0000."),
      unforeseen: false,
    };
  if (error instanceof ConnectError && PEER_AWAY.includes(error.code))
    return { error: unavailable(), unforeseen: false };
  return {
    error: refuse(
      500,
      "internal",
      `Something went wrong on our side. Give this request id to the operator: ${requestId}`,
    ),
    unforeseen: true,
  };
}
