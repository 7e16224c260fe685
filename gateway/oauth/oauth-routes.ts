import type { Client } from "@connectrpc/connect";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { Pool } from "undici";
import type { InternalService } from "../../proto/gen/berth/identity/v1/internal_pb.ts";
import type { Logger } from "../../services/kit/log.ts";
import { unreachable } from "../http/problem.ts";
import { errorResponse, writeResponse } from "../http/response.ts";
import type { RateLimiter } from "../limits/rate-limiter.ts";
import { resourceMetadata, serverMetadata } from "./metadata.ts";

const MAX_FORM = 64 * 1024;
const MAX_METADATA = 16 * 1024;
const TIMEOUT_MS = 15_000;

/** Headers that a browser or client and the provider exchange. */
const REQUEST_HEADERS = ["accept", "authorization", "content-type", "cookie", "origin", "user-agent"];
const RESPONSE_HEADERS = [
  "content-type",
  "location",
  "set-cookie",
  "cache-control",
  "pragma",
  "www-authenticate",
];

/** Registers what OAuth clients and browsers ask on the origin (docs/oauth.md#protocol). */
export function registerOauth(
  app: FastifyInstance,
  providerUrl: string,
  deps: {
    identity: Client<typeof InternalService>;
    prefix: string;
    origin: () => string;
    embedded: boolean;
    limiter: RateLimiter;
    tracing: boolean;
    log: Logger;
  },
) {
  const { identity, prefix, embedded } = deps;
  const pool = new Pool(providerUrl, {
    connections: 32,
    headersTimeout: TIMEOUT_MS,
    bodyTimeout: TIMEOUT_MS,
  });
  const place = () => ({ origin: deps.origin(), prefix, embedded });

  const proxy = async (request: FastifyRequest, reply: FastifyReply) => {
    const headers: Record<string, string | string[]> = { "x-request-id": request.id };
    for (const name of REQUEST_HEADERS) {
      const value = request.headers[name];
      if (value !== undefined) headers[name] = value;
    }
    headers.host = new URL(deps.origin()).host;
    headers["x-forwarded-proto"] = new URL(deps.origin()).protocol.slice(0, -1);
    headers["x-forwarded-for"] = request.ip;
    reply.hijack();
    try {
      const method = request.method as "GET";
      const body = request.body as Buffer | undefined;
      const answer = await pool.request({ method, path: request.raw.url!, headers, body: body ?? null });
      const text = Buffer.from(await answer.body.arrayBuffer());
      for (const name of RESPONSE_HEADERS) {
        const value = answer.headers[name];
        if (value !== undefined) reply.raw.setHeader(name, value);
      }
      reply.raw.setHeader("x-request-id", request.id);
      reply.raw.writeHead(answer.statusCode, { "content-length": text.length });
      reply.raw.end(text);
    } catch (error) {
      writeResponse(reply.raw, request.id, errorResponse(unreachable("OAuth", error), request.id), undefined);
    }
  };

  app.get("/.well-known/oauth-authorization-server", async () => serverMetadata(place()));
  app.get("/.well-known/oauth-protected-resource", async () => resourceMetadata(place()));
  if (prefix)
    app.get(`/.well-known/oauth-protected-resource${prefix}`, async () => resourceMetadata(place()));

  app.register(async (scope) => {
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser("*", { parseAs: "buffer", bodyLimit: MAX_FORM }, (_request, body, done) =>
      done(null, body),
    );
    for (const path of ["/oauth2/auth", "/oauth2/auth/:uid", "/.well-known/jwks.json"])
      scope.get(path, proxy);
    for (const path of ["/oauth2/token", "/oauth2/revoke"]) scope.post(path, proxy);
    scope.post(`${prefix}/oauth/register`, { bodyLimit: MAX_METADATA }, async (request, reply) => {
      const metadata = request.body as Buffer;
      const { result } = await identity.registerClient({ metadata, ip: request.ip });
      reply.header("cache-control", "no-store").header("x-request-id", request.id).type("application/json");
      if (result.case === "client") return reply.code(201).send(result.value);
      const { error, errorDescription } = result.value!;
      return reply.code(400).send({ error, error_description: errorDescription });
    });
  });
  return { close: () => pool.close() };
}
