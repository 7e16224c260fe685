import type { FastifyReply, FastifyRequest } from "fastify";

declare module "fastify" {
  // biome-ignore lint/style/useConsistentTypeDefinitions: an interface is merged with the library's own.
  interface FastifyContextConfig {
    /** Whether scripts of any origin may call the route. They send a bearer token or nothing, and never cookies. */
    cors?: boolean;
  }
}

const EXPOSED = [
  ...["WWW-Authenticate", "X-Request-Id", "Retry-After", "ETag", "Idempotent-Replayed"],
  ...["RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"],
];

/** What lets scripts of any origin read a response; no credentials of the browser's are ever allowed along. */
export const CORS_HEADERS = {
  "access-control-allow-origin": "*",
  "access-control-expose-headers": EXPOSED.join(", "),
};

const CORS_LINES = Object.entries(CORS_HEADERS).flat();

/** Returns the headers for the script that sent the request, if it is one and the route is for such. */
export function corsLines(request: FastifyRequest): string[] | undefined {
  if (request.headers.origin === undefined) return undefined;
  return request.routeOptions.config?.cors ? CORS_LINES : undefined;
}

/** Returns the method that a script wants to use, if a browser asks on its behalf. */
export function preflightOf({ method, headers }: FastifyRequest): string | undefined {
  return method === "OPTIONS" ? headers["access-control-request-method"] : undefined;
}

/** How long browsers may remember the answer: two hours, the most that they do. */
const PREFLIGHT_SECONDS = 7_200;

export function answerPreflight(request: FastifyRequest, reply: FastifyReply, methods: string): void {
  reply
    .code(204)
    .headers({
      "access-control-allow-origin": "*",
      "access-control-allow-methods": methods,
      // The star does not stand for Authorization.
      "access-control-allow-headers": "*, Authorization",
      "access-control-max-age": PREFLIGHT_SECONDS,
      "x-request-id": request.id,
    })
    .send();
}
