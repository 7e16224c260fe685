import type { FastifyInstance } from "fastify";

/** An answer of the API that is an error: what docs/conventions.md#errors says of it. */
export class ApiRefusal extends Error {
  readonly status: number;
  readonly code: string;
  readonly reasons: string[];
  readonly retryAfter: number | undefined;
  constructor(status: number, error: ErrorBody, retryAfter?: number) {
    super(error.message);
    this.status = status;
    this.code = error.code;
    this.reasons = (error.details ?? []).map(({ reason }) => reason);
    this.retryAfter = retryAfter;
  }
}

type ErrorBody = { code: string; message: string; details?: { reason: string }[] };

/** Who a page calls the API for. */
export type ApiCaller = { token: string | undefined; ip: string; requestId: string };

type CallOptions = {
  /** Makes it one call, also when an answer was lost: its Idempotency-Key. */
  once?: string;
};

export type Api = ReturnType<typeof createApi>;

const RESTARTING = { code: "unavailable", message: "Berth is not available right now. Try again." };

/**
 * Returns a function that calls the API as any client does: the same routes, limits and refusals, within this process.
 * It resolves to the body, and rejects with an `ApiRefusal`.
 */
export function createApi(app: FastifyInstance, prefix: string) {
  return async <T>(
    { token, ip, requestId }: ApiCaller,
    method: "GET" | "PATCH" | "POST" | "PUT" | "DELETE",
    path: string,
    body?: object,
    { once }: CallOptions = {},
  ): Promise<T> => {
    const headers = {
      "x-request-id": requestId,
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
      ...(body && { "content-type": "application/json" }),
      ...(once !== undefined && { "idempotency-key": once }),
    };
    const payload = body && JSON.stringify(body);
    const request = { method, url: prefix + path, headers, remoteAddress: ip, ...(payload && { payload }) };
    // A gateway that stops takes no more calls.
    const response = await app.inject(request).catch(() => undefined);
    if (!response) throw new ApiRefusal(503, RESTARTING, 1);
    const json = response.payload ? JSON.parse(response.payload) : {};
    if (response.statusCode < 300) return json as T;
    const retryAfter = Number(response.headers["retry-after"]) || undefined;
    throw new ApiRefusal(response.statusCode, json.error, retryAfter);
  };
}

/** Returns the refusal of a call, when it has one of these codes or reasons. Rejects with any other. */
export function refusalOf(call: Promise<unknown>, ...expected: string[]): Promise<ApiRefusal | undefined> {
  return call.then(
    () => undefined,
    (error: unknown) => {
      if (error instanceof ApiRefusal && [error.code, ...error.reasons].some((one) => expected.includes(one)))
        return error;
      throw error;
    },
  );
}
