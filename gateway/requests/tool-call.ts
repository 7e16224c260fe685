import type { DescMethod } from "@bufbuild/protobuf";
import { beginExchange } from "../auth/exchange.ts";
import { problem } from "../http/problem.ts";
import { errorResponse, type GatewayResponse } from "../http/response.ts";
import { observer } from "../metrics/request-metrics.ts";
import type { Route } from "../routing/routes.ts";
import { type ApiRequest, admit, type RequestDeps, respond } from "./handle-request.ts";

/** A call of the API that a tool of MCP makes for its caller. */
export type ToolCall = {
  tool: string;
  rpc: DescMethod;
  /** The members of the request message, by their JSON names. */
  members: Record<string, unknown>;
  /** Makes it one call, however often it is sent. */
  idempotencyKey?: string | undefined;
  authorization: string;
  traceparent?: string | undefined;
  ip: string;
  requestId: string;
};

export type CallApi = (call: ToolCall) => Promise<GatewayResponse>;

/**
 * Returns a function that calls the API as a request from outside does, without the way through HTTP: the same checks in
 * the same order, limits, idempotency and measurements. The audit record names the tool.
 */
export function toolCalls(prefix: string, routes: Route[], deps: RequestDeps): CallApi {
  const unary = routes
    .filter((route) => !route.follow)
    .map((route) => ({ route, measure: observer(route.method, route.template, deps) }))
    .sort((a, b) => b.route.pathMembers.length - a.route.pathMembers.length);
  const byRpc = Map.groupBy(unary, ({ route }) => route.rpc);

  /** Returns the RPC's route with the most parts of the path that the members fill. */
  const find = ({ rpc, members }: ToolCall) => {
    const found = byRpc
      .get(rpc)
      ?.find(({ route }) => route.pathMembers.every(({ name }) => members[name] !== undefined));
    if (!found) throw new Error(`${rpc.name} has no route for ${Object.keys(members).join(", ")}`);
    return found;
  };

  return async (call) => {
    const { route, measure } = find(call);
    const request = toRequest(prefix, route, call);
    const exchange = beginExchange(request, route, measure);
    const refusal = Object.values(request.params as object).includes("")
      ? problem(404, "not_found", "A part of the path is empty.")
      : await admit(request, exchange, deps);
    const response = refusal ? errorResponse(refusal, request.id) : (await respond(request, exchange, deps))!;
    measure.end(exchange.observed, response, request.id);
    return response;
  };
}

function toRequest(prefix: string, route: Route, call: ToolCall): ApiRequest {
  const { members, authorization, idempotencyKey, traceparent, ip, requestId, tool } = call;
  const params: Record<string, string> = {};
  let path = route.pattern;
  for (const { name } of route.pathMembers) {
    params[name] = String(members[name]);
    path = path.replace(`:${name}`, () => encodeURIComponent(params[name]!));
  }
  const rest = Object.entries(members).filter(
    ([name, value]) => params[name] === undefined && value !== undefined,
  );
  const query = route.method === "GET" && rest.length > 0 ? `?${new URLSearchParams(rest.map(asText))}` : "";
  const body =
    route.method === "GET" || rest.length === 0
      ? undefined
      : Buffer.from(JSON.stringify(Object.fromEntries(rest)));
  return {
    ...{ id: requestId, method: route.method, params, body, ip, tool },
    url: prefix + path + query,
    headers: {
      authorization,
      ...(idempotencyKey !== undefined && { "idempotency-key": idempotencyKey }),
      ...(traceparent !== undefined && { traceparent }),
    },
  };
}

const asText = ([name, value]: [string, unknown]): [string, string] => [name, String(value)];
