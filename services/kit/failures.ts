import { Code, ConnectError } from "@connectrpc/connect";
import { NoLane } from "./concurrency/lanes.ts";

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
export function isEndedByDatabase(error: unknown): boolean {
  return DATABASE_ENDED.test(String((error as { code?: unknown } | null)?.code));
}

const PEER_UNAVAILABLE = [Code.Canceled, Code.DeadlineExceeded, Code.Unavailable];

/** Whether a service that was called is away, stopping or too slow. */
export function isPeerUnavailable(error: unknown): error is ConnectError {
  return error instanceof ConnectError && PEER_UNAVAILABLE.includes(error.code);
}

/** Whether work failed because something it needs was unreachable, busy or stopping, not by a fault of its own. */
export function isTransient(error: unknown): boolean {
  return isUnreachable(error) || isEndedByDatabase(error) || isPeerUnavailable(error);
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
