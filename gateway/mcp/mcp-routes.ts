import { createMcpHandler } from "@modelcontextprotocol/server";
import type { FastifyInstance, FastifyRequest } from "fastify";
import type { Logger } from "../../services/kit/log.ts";
import { findExcessInFree, MAX_DEPTH } from "../../services/kit/rpc/json/json-bounds.ts";
import type { Auth, Credentials } from "../auth/authorize.ts";
import { bearerChallenge } from "../http/challenge.ts";
import { clientAddress } from "../http/client-address.ts";
import { isProblem, type Problem } from "../http/problem.ts";
import { errorResponse, type GatewayResponse } from "../http/response.ts";
import { beginMeasured, type Measured, sendResponse } from "../http/send-response.ts";
import { type RateLimiter, tooManyRequests } from "../limits/rate-limiter.ts";
import { observer } from "../metrics/request-metrics.ts";
import { type Installation, MCP_PATH, toolsMetadataUrl } from "../oauth/metadata.ts";
import type { ToolSession } from "./call-tool.ts";
import { type Narrowing, readNarrowing } from "./narrowing.ts";
import { answerPlainCall } from "./plain-call.ts";
import type { ToolServers } from "./server.ts";

const MAX_BODY = 1024 * 1024;
/** What a message may hold: more than the largest batch of variables does. */
const MAX_VALUES = 10_000;

type McpDeps = {
  auth: Auth;
  limiter: RateLimiter;
  installation: () => Installation;
  servers: ToolServers;
  tracing: boolean;
  log: Logger;
};

type Admitted = Measured & { credentials: Credentials; narrowing: Narrowing };

/**
 * Registers the tools of MCP at the origin (docs/mcp.md#access): streamable HTTP without sessions, so that any gateway answers
 * any request, for both generations of the protocol.
 */
export function registerMcp(app: FastifyInstance, deps: McpDeps): { close: () => Promise<void> } {
  const { installation, servers, log } = deps;
  const handler = createMcpHandler(({ authInfo }) => servers.create(authInfo!.extra as ToolSession), {
    // A message about a request that a client got wrong.
    onerror: (error) => log.debug({ err: error }, "an MCP request was refused"),
  });
  const measure = observer("POST", MCP_PATH, deps);

  app.route({
    method: "POST",
    url: MCP_PATH,
    bodyLimit: MAX_BODY,
    config: { cors: true },
    onRequest: async (request, reply) => {
      const exchange = beginMeasured(request, measure);
      request.exchange = exchange;
      const refusal = await admit(request, exchange, deps);
      if (refusal) sendResponse(request, reply, refused(request, refusal));
    },
    handler: async (request, reply) => {
      sendResponse(request, reply, await answer(request, request.exchange as Admitted));
    },
  });

  /** Returns a refusal, which leads a client without a valid token to where it gets one. */
  function refused(request: FastifyRequest, refusal: Problem): GatewayResponse {
    const response = errorResponse(refusal, request.id);
    if (refusal.status === 401)
      response.challenge = bearerChallenge(toolsMetadataUrl(installation()), refusal.tokenError);
    return response;
  }

  async function answer(request: FastifyRequest, exchange: Admitted): Promise<GatewayResponse> {
    const bytes = (request.body as Buffer | undefined) ?? Buffer.alloc(0);
    const excess = findExcessInFree(bytes, MAX_VALUES)?.kind;
    if (excess === "deep")
      return inJson(400, rpcError(-32_600, `The message has more than ${MAX_DEPTH} levels.`));
    if (excess === "many")
      return inJson(400, rpcError(-32_600, `The message holds more than ${MAX_VALUES} values.`));
    const body = excess === undefined ? read(bytes) : undefined;
    if (body === undefined) return inJson(400, rpcError(-32_700, "The body is not valid JSON."));
    if (Array.isArray(body))
      return inJson(400, rpcError(-32_600, "Send one message in a request, not a batch."));
    const { caller, token } = exchange.credentials;
    const session: ToolSession = {
      caller,
      narrowing: exchange.narrowing,
      authorization: `Bearer ${token}`,
      traceparent: exchange.observed.traceparent,
      ip: clientAddress(request),
      requestId: request.id,
    };
    const answered = await answerPlainCall(body, request.headers, { servers, session });
    return answered ? inJson(200, answered) : answerBySdk(exchange, session, { request, body });
  }

  async function answerBySdk(
    { credentials: { token, caller } }: Admitted,
    session: ToolSession,
    { request, body }: { request: FastifyRequest; body: unknown },
  ): Promise<GatewayResponse> {
    const given = new Request(installation().origin + MCP_PATH, {
      method: "POST",
      headers: mcpHeaders(request),
    });
    const authInfo = { token, clientId: caller.tokenId, scopes: [], extra: session };
    const answered = await handler.fetch(given, { authInfo, parsedBody: body });
    // A stream of events ends as well: the servers declare nothing that a client could subscribe to.
    const text = await answered.text();
    return {
      status: answered.status,
      body: text === "" ? undefined : Buffer.from(text),
      ...(text !== "" && { type: answered.headers.get("content-type") ?? "application/json" }),
    };
  }

  return { close: () => handler.close() };
}

/**
 * Makes the checks that come before the body is read: 401, then what the query says, then 429. Tokens for the API call tools
 * too; those for tools alone are refused elsewhere, by requests/handle-request.
 */
async function admit(
  request: FastifyRequest,
  exchange: Measured,
  { auth, limiter, servers }: McpDeps,
): Promise<Problem | undefined> {
  const credentials = await auth.identify(request.headers.authorization);
  if (isProblem(credentials)) return credentials;
  const narrowing = readNarrowing(request.url.split("?")[1] ?? "", servers.names);
  if (isProblem(narrowing)) return narrowing;
  Object.assign(exchange, { credentials, narrowing });
  exchange.rate = await limiter.consume("reads", credentials.caller.userId);
  return tooManyRequests(exchange.rate);
}

const HEADERS = ["accept", "content-type", "mcp-protocol-version", "mcp-method", "mcp-name"];

function mcpHeaders({ headers }: FastifyRequest): Headers {
  const sent = HEADERS.flatMap((name) =>
    headers[name] === undefined ? [] : [[name, String(headers[name])]],
  );
  return new Headers(sent as [string, string][]);
}

function read(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString());
  } catch {
    return undefined;
  }
}

const rpcError = (code: number, message: string) => ({ jsonrpc: "2.0", error: { code, message }, id: null });

const inJson = (status: number, value: object): GatewayResponse => ({
  status,
  body: Buffer.from(JSON.stringify(value)),
});
