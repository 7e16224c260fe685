import type { FastifyReply, FastifyRequest } from "fastify";
import type { Observed, Observer } from "../metrics/request-metrics.ts";
import { bearerChallenge } from "./challenge.ts";
import { corsLines } from "./cors.ts";
import { drainBody, type GatewayResponse, type RateLimitState, writeResponse } from "./response.ts";

/** What is recorded of a request while it is answered. */
export type Measured = {
  observer: Observer;
  observed: Observed;
  rate: RateLimitState | undefined;
};

declare module "fastify" {
  // biome-ignore lint/style/useConsistentTypeDefinitions: an interface is merged with the library's own.
  interface FastifyInstance {
    /** Whether the gateway is being stopped: connections end with their next response. */
    stopping: boolean;
    /** Where the metadata of the API as a protected resource is. */
    resourceMetadata: () => string;
  }
  // biome-ignore lint/style/useConsistentTypeDefinitions: an interface is merged with the library's own.
  interface FastifyRequest {
    /** Undefined where no route was found; an `Exchange` on the routes of the API. */
    exchange: Measured | undefined;
  }
}

export function beginMeasured(request: FastifyRequest, measure: Observer): Measured {
  const observed = measure.begin(request.headers.traceparent as string | undefined);
  return { observer: measure, observed, rate: undefined };
}

/** Ends a request: writes its response and records it. */
export function sendResponse(request: FastifyRequest, reply: FastifyReply, response: GatewayResponse): void {
  const { exchange, server } = request;
  reply.hijack();
  if (server.stopping) response.close = true;
  if (response.status === 401 || response.tokenError)
    response.challenge ??= bearerChallenge(server.resourceMetadata(), response.tokenError);
  const cors = corsLines(request);
  if (cors) response.more = response.more ? [...response.more, ...cors] : cors;
  if (!reply.raw.headersSent) writeResponse(reply.raw, request.id, response, exchange?.rate);
  if (request.body === undefined && hasBody(request)) drainBody(request.raw);
  exchange?.observer.end(exchange.observed, response, request.id);
}

/** Whether a body was sent, or will be. */
export function hasBody({ headers }: FastifyRequest): boolean {
  return headers["content-length"] !== undefined || headers["transfer-encoding"] !== undefined;
}
