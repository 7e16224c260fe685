import type { Client } from "@connectrpc/connect";
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { InternalService } from "../../proto/gen/berth/identity/v1/internal_pb.ts";
import type { Logger } from "../../services/kit/log.ts";
import { clientNetwork } from "../../services/kit/network/client-network.ts";
import { clientAddress } from "../http/client-address.ts";
import { fromClientError, inBytes } from "../http/problem.ts";
import { errorResponse, type GatewayResponse } from "../http/response.ts";
import { beginMeasured, sendResponse } from "../http/send-response.ts";
import { type RateLimiter, tooManyRequests } from "../limits/rate-limiter.ts";
import { observer } from "../metrics/request-metrics.ts";
import { oauthError } from "./oauth-error.ts";

const MAX_METADATA = 16 * 1024;

const NO_JSON = "the body has to be a JSON object with Content-Type: application/json, not compressed";
const TOO_LARGE = `the client metadata is larger than ${inBytes(MAX_METADATA)}`;
const NOT_OFFERED = "client configuration is not offered: register again instead";

export type RegistrationDeps = {
  identity: Client<typeof InternalService>;
  /** The path before all routes of the API. */
  prefix: string;
  limiter: RateLimiter;
  tracing: boolean;
  log: Logger;
};

/**
 * Registers the registration of clients by RFC 7591, whose answers are not in the error envelope, and the paths of RFC
 * 7592, which say to everybody that they are not offered (docs/oauth.md#registration).
 */
export function registerRegistration(app: FastifyInstance, deps: RegistrationDeps): void {
  const { identity, limiter } = deps;
  const url = `${deps.prefix}/oauth/register`;

  /** Counts the request; the state is that of the limit which is used up, or else of the minute's. */
  async function count(request: FastifyRequest) {
    const network = clientNetwork(clientAddress(request));
    const minute = await limiter.consume("registrations", network);
    if (minute?.allowed === false) return minute;
    const day = await limiter.consume("registrationsDaily", network);
    return day?.allowed === false ? day : minute;
  }

  async function register(request: FastifyRequest): Promise<GatewayResponse> {
    if (!isJson(request)) return invalidMetadata(NO_JSON);
    const metadata = (request.body as Buffer | undefined) ?? Buffer.alloc(0);
    try {
      const { result } = await identity.registerClient(
        { metadata, ip: clientAddress(request) },
        { headers: { "x-request-id": request.id } },
      );
      if (result.case === "client") return { status: 201, body: Buffer.from(result.value) };
      const { error, errorDescription } = result.value!;
      return oauthError(400, error, errorDescription);
    } catch (error) {
      return errorResponse(fromClientError("identity", error, request.id), request.id);
    }
  }

  app.register(async (scope) => {
    const measure = observer("POST", "/oauth/register", deps);
    scope.removeAllContentTypeParsers();
    const bytes = { parseAs: "buffer", bodyLimit: MAX_METADATA } as const;
    scope.addContentTypeParser("*", bytes, (_request, body, done) => done(null, body));
    scope.setErrorHandler((error: FastifyError, request, reply) => {
      const { statusCode = 500 } = error;
      if (statusCode >= 500 || statusCode === 408) throw error;
      sendResponse(request, reply, invalidMetadata(statusCode === 413 ? TOO_LARGE : NO_JSON));
    });
    scope.post(url, {
      config: { cors: true },
      onRequest: async (request, reply) => {
        const exchange = beginMeasured(request, measure);
        request.exchange = exchange;
        exchange.rate = await count(request);
        const refusal = tooManyRequests(exchange.rate);
        if (refusal) sendResponse(request, reply, errorResponse(refusal, request.id));
      },
      handler: async (request, reply) => sendResponse(request, reply, await register(request)),
    });
  });

  for (const method of ["GET", "PUT", "DELETE"] as const) {
    const measure = observer(method, "/oauth/register/*", deps);
    app.route({
      method,
      // An id may be a URL, or longer than the router takes for one parameter.
      url: `${url}/*`,
      config: { cors: true },
      // Before the body is read: whatever it is, the answer is the same.
      onRequest: async (request, reply) => {
        request.exchange = beginMeasured(request, measure);
        sendResponse(request, reply, oauthError(404, "invalid_request", NOT_OFFERED));
      },
      handler: notReached,
    });
  }
}

function isJson({ headers }: FastifyRequest): boolean {
  const { "content-type": type = "", "content-encoding": encoding = "identity" } = headers;
  return /^application\/json\s*(;|$)/i.test(type) && encoding === "identity";
}

const invalidMetadata = (description: string) => oauthError(400, "invalid_client_metadata", description);

function notReached(_request: FastifyRequest, reply: FastifyReply): void {
  reply.hijack();
}
