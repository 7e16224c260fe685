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
