import type { JsonObject } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { ProblemSchema } from "../../../proto/gen/berth/options/v1/options_pb.ts";
import { NoLane } from "../lanes.ts";

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
 * Returns a refusal that the caller may read: HTTP status, code (docs/conventions.md#error-codes), a sentence that says
 * what to change, reasons per request member, and further members of the envelope.
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

/** Returns a 422 validation_failed with one reason. */
export function invalid(path: string, reason: string, message: string): ConnectError {
  return refuse(422, "validation_failed", message, { details: [{ path, reason, message }] });
}

/** Returns a sentence on what is wrong with a request member, such as `port is required.` An empty path is the body. */
export function sentence(path: string, words: string): string {
  return `${path || "The body"} ${words}${/[.?]$/.test(words) ? "" : "."}`;
}

/** Returns a 404 not_found. `what` names the resource: "project". */
export function notFound(what: string): ConnectError {
  return refuse(404, "not_found", `There is no such ${what}.`);
}

/** Returns a 409 with its code. */
export function conflict(code: string, message: string, context?: JsonObject): ConnectError {
  return refuse(409, code, message, { context });
}

/** Returns a 503 unavailable: the caller may try again. */
export function unavailable(message = "The service is not available right now. Try again."): ConnectError {
  return refuse(503, "unavailable", message);
}

/** Whether an error is a refusal made by the functions above, in this process or in a service that it called. */
export function isRefusal(error: unknown): error is ConnectError {
  return error instanceof ConnectError && error.findDetails(ProblemSchema).length > 0;
}

// Codes of PostgreSQL when it cannot serve now: classes 08 (connection), 53 (resources) and 57P (shutdown, start-up,
// ended sessions), and 25006 (a former primary that is read-only).
const DATABASE_UNAVAILABLE = /^(08...|53...|57P..|25006)$/;
// Its codes when it ended work that may succeed later. Waits that took too long: 55P03 for a lock, 57014 for a
// statement, 25P03 and 25P04 for a transaction. Transactions that were in each other's way: 40P01 and 40001.
const DATABASE_ENDED = /^(55P03|57014|25P0[34]|40P01|40001)$/;
const SOCKET_FAILED = new Set([
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
// Errors of pg and pg-pool have no code.
const READ_TIMEOUT = /^Query read timeout$/;
const POOL_BUSY = /^timeout exceeded when trying to connect$/;
const CONNECTION_BROKEN = [
  READ_TIMEOUT,
  POOL_BUSY,
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

/** Whether the answer to a statement did not arrive in time. */
export function isReadTimeout(error: unknown): error is Error {
  return error instanceof Error && READ_TIMEOUT.test(error.message);
}

/** Whether all connections of a pool were in use for too long. */
export function isPoolBusy(error: unknown): boolean {
  if (error instanceof NoLane) return true;
  return error instanceof Error && POOL_BUSY.test(error.message);
}

/** Whether an error, or one of its causes, says that the database or another service cannot be reached. */
export function isUnreachable(error: unknown): boolean {
  const { code, message, cause } = (error ?? {}) as { code?: unknown; message?: unknown; cause?: unknown };
  if (typeof code === "string" && (DATABASE_UNAVAILABLE.test(code) || SOCKET_FAILED.has(code))) return true;
  if (error instanceof NoLane) return true;
  if (CONNECTION_BROKEN.some((broken) => broken.test(String(message)))) return true;
  return cause !== undefined && cause !== error && isUnreachable(cause);
}

/** Returns what an error says in one line of a log, without its stack. */
export function causeOf(error: unknown): string {
  const { rawMessage, message, code } = error as { rawMessage?: string; message?: string; code?: unknown };
  return rawMessage || message || String(code);
}

/** Whether the database ended a wait or a transaction. The same may succeed later. */
function isEndedByDatabase(error: unknown): boolean {
  return DATABASE_ENDED.test(String((error as { code?: unknown } | null)?.code));
}

const PEER_UNAVAILABLE = [Code.Canceled, Code.DeadlineExceeded, Code.Unavailable];

/** Whether work failed because something it needs was unreachable, busy or stopping, not by a fault of its own. */
export function isTransient(error: unknown): boolean {
  return (
    isUnreachable(error) ||
    isEndedByDatabase(error) ||
    (error instanceof ConnectError && PEER_UNAVAILABLE.includes(error.code))
  );
}

// Messages of the same errors. Node's error for a host with several addresses, none of which answered, has no message.
const TRANSIENT_MESSAGES = [
  /^$/,
  ...CONNECTION_BROKEN,
  /^\[(unavailable|deadline_exceeded|canceled)\]/,
  /\b(connect|read|write|getaddrinfo|query\w*) E[A-Z_]{4,}/,
  /^canceling statement due to (statement timeout|lock timeout|user request)/,
  /^deadlock detected$|^could not serialize access /,
  /^terminating connection /,
  /^the database system is /,
  /^sorry, too many clients|^too many connections for |^remaining connection slots are reserved/,
  /^could not extend file |No space left on device$/,
  /in a read-only transaction$/,
];

/** As `isTransient`, by the message alone: dead letters of former versions have nothing else of an error. */
export function isTransientMessage(message: string): boolean {
  return TRANSIENT_MESSAGES.some((reason) => reason.test(message));
}

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
  if (error instanceof ConnectError && PEER_UNAVAILABLE.includes(error.code))
    return { error: unavailable(), unexpected: false };
  return {
    error: refuse(
      500,
      "internal",
      `Something went wrong on our side. Give this request id to the operator: ${requestId}`,
    ),
    unexpected: true,
  };
}
