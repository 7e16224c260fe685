import { fromBinary, type JsonObject } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import {
  ProblemSchema,
  type Problem as ServiceProblem,
} from "../../proto/gen/berth/options/v1/options_pb.ts";
import { causeOf } from "../../services/kit/failures.ts";
import { type Detail, sentence } from "../../services/kit/rpc/refusals.ts";

/** A refusal: its HTTP status, its code (docs/conventions.md#error-codes) and what the error envelope says. */
export type Problem = {
  status: number;
  code: string;
  message: string;
  details?: Detail[];
  /** Further members of the envelope, such as requiredRole. */
  context?: JsonObject;
  /** Seconds; every 429 and 503 has one. */
  retryAfter?: number;
  /** What failed, for the log alone. */
  cause?: string;
  /** What is wrong with the bearer token, for WWW-Authenticate. */
  tokenError?: TokenError;
};

/** What a client can do something about: get a new token, or one that may more (RFC 6750, section 3.1). */
export type TokenError = "invalid_token" | "insufficient_scope";

export function isProblem(value: object): value is Problem {
  return "code" in value && "message" in value;
}

export function problem(status: number, code: string, message: string, more: Partial<Problem> = {}): Problem {
  return { status, code, message, ...more };
}

/** Returns a 422 that says in sentences what is wrong with each member. */
export function validationFailed(found: Detail[]): Problem {
  const details = found.map((detail) => ({ ...detail, message: sentence(detail.path, detail.message) }));
  return { status: 422, code: "validation_failed", message: details[0]!.message, details };
}

/**
 * Returns the refusal of a request that could not be read; undefined when that was not the client's fault. `maxBody` is
 * the endpoint's limit, in bytes.
 */
export function unreadable(
  { statusCode = 500 }: { statusCode?: number | undefined },
  maxBody: number,
): Problem | undefined {
  if (statusCode >= 500) return undefined;
  if (statusCode === 408) return problem(408, "request_timeout", "The request took too long to arrive.");
  if (statusCode === 413)
    return problem(413, "payload_too_large", `The body may have at most ${inBytes(maxBody)} here.`);
  if (statusCode === 415)
    return problem(415, "unsupported_media_type", "The body must be application/json, not compressed.");
  return problem(400, "malformed_request", "The request could not be read.");
}

/** Returns a size as people read it: `64 KiB`, or `1000 bytes` for one that is no whole number of KiB. */
export function inBytes(bytes: number): string {
  const units = ["bytes", "KiB", "MiB", "GiB"];
  let [size, unit] = [bytes, 0];
  while (size >= 1024 && size % 1024 === 0 && unit < units.length - 1) [size, unit] = [size / 1024, unit + 1];
  return `${size} ${units[unit]}`;
}

export function unavailable(): Problem {
  const message = "The service is not available right now. Try again.";
  return { status: 503, code: "unavailable", message, retryAfter: 1 };
}

/** Returns a 503 for another process that could not be reached; its cause is for the log alone. */
export function unreachable(process: string, error: unknown): Problem {
  return { ...unavailable(), cause: `${process}: ${causeOf(error)}` };
}

export function internal(requestId: string): Problem {
  const message = `Something went wrong on our side. Give this request id to the operator: ${requestId}`;
  return { status: 500, code: "internal", message };
}

/** Returns the body of every error: `ErrorEnvelopeDto` (docs/conventions.md#errors). */
export function errorEnvelope(refusal: Problem, requestId: string): Buffer {
  const { code, message, details = [], context } = refusal;
  return Buffer.from(JSON.stringify({ error: { code, message, requestId, details, ...context } }));
}

type ConnectErrorJson = {
  code?: unknown;
  message?: unknown;
  details?: { type?: string; value?: string }[];
};

// A replica that an upgrade has not reached yet answers a new RPC with `unimplemented`.
const TEMPORARY = new Set(["unavailable", "deadline_exceeded", "canceled", "unimplemented"]);
const TEMPORARY_CODES = new Set([Code.Unavailable, Code.DeadlineExceeded, Code.Canceled, Code.Unimplemented]);

/** Returns the refusal in a service's Connect error: 500 internal for one that is not meant for the caller. */
export function fromConnectError(body: Buffer, requestId: string): Problem {
  if (body.length === 0) return unavailable();
  let error: ConnectErrorJson;
  try {
    error = JSON.parse(body.toString()) as ConnectErrorJson;
  } catch {
    return internal(requestId);
  }
  const detail = Array.isArray(error.details)
    ? error.details.find((entry) => entry.type === ProblemSchema.typeName)
    : undefined;
  if (detail?.value) return fromService(fromBinary(ProblemSchema, Buffer.from(detail.value, "base64")));
  if (TEMPORARY.has(String(error.code))) return unavailable();
  return fromDecodeError(String(error.code), String(error.message)) ?? internal(requestId);
}

/** Returns the refusal in what a typed client of a service threw: 503 when the service did not answer. */
export function fromClientError(service: string, error: unknown, requestId: string): Problem {
  if (!(error instanceof ConnectError)) return unreachable(service, error);
  const [found] = error.findDetails(ProblemSchema);
  if (found) return fromService(found);
  return TEMPORARY_CODES.has(error.code) ? unreachable(service, error) : internal(requestId);
}

function fromService({ status, code, message, details, context }: ServiceProblem): Problem {
  return {
    status,
    code,
    message,
    details: details.map(({ path, reason, message }) => ({ path, reason, message })),
    context,
    retryAfter: typeof context?.retryAfter === "number" ? context.retryAfter : undefined,
  };
}

// The gateway checks shapes itself (json-shape.ts), so that a service hardly ever fails to decode. Its message
// may quote the value and is not passed on.
function fromDecodeError(code: string, message: string): Problem | undefined {
  if (code !== "invalid_argument" || !/cannot decode /.test(message)) return undefined;
  const unknown = /key "([A-Za-z0-9_]{1,64})" is unknown/.exec(message);
  if (unknown)
    return validationFailed([{ path: unknown[1]!, reason: "unknown_field", message: "is not known" }]);
  const field = /cannot decode field [\w.]+\.(\w+) from JSON/.exec(message);
  const path = (field?.[1] ?? "").replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
  return validationFailed([{ path, reason: "invalid_type", message: "has a value of the wrong type" }]);
}
