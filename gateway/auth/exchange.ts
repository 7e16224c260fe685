import type { FastifyRequest } from "fastify";
import type { Measured } from "../http/send-response.ts";
import type { Observer } from "../metrics/request-metrics.ts";
import type { Route } from "../routing/routes.ts";
import type { Credentials } from "./authorize.ts";

/** What is known of one request of the API while it is answered. */
export type Exchange = Measured & {
  route: Route;
  arrivedAt: number;
  /** The caller, on a route that needs a token; set once the token is identified. */
  credentials: Credentials | undefined;
  /** The signed caller for the service; set once the request is admitted. */
  callerHeader: string;
};

export function beginExchange(
  request: Pick<FastifyRequest, "headers">,
  route: Route,
  measure: Observer,
): Exchange {
  return {
    route,
    observer: measure,
    observed: measure.begin(request.headers.traceparent as string | undefined),
    arrivedAt: Date.now(),
    credentials: undefined,
    callerHeader: "",
    rate: undefined,
  };
}
