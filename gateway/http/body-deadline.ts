import type { FastifyInstance } from "fastify";
import { hasBody } from "./send-response.ts";

declare module "fastify" {
  // biome-ignore lint/style/useConsistentTypeDefinitions: an interface is merged with the library's own.
  interface FastifyRequest {
    bodyDeadline: NodeJS.Timeout | undefined;
  }
}

const LATE = Object.assign(new Error("the body did not arrive in time"), { statusCode: 408 });

/**
 * Answers 408 when a body has not arrived after `ms`, and closes the connection. A route that is handed the body as a
 * stream has rules of its own.
 */
export function limitBodyTime(app: FastifyInstance, ms: number): void {
  app.decorateRequest("bodyDeadline", undefined);
  app.addHook("preParsing", (request, reply, _body, done) => {
    const late = () => {
      if (reply.sent) return;
      reply.raw.setHeader("connection", "close");
      reply.send(LATE);
    };
    if (hasBody(request)) request.bodyDeadline = setTimeout(late, ms).unref();
    done();
  });
  app.addHook("preValidation", (request, _reply, done) => {
    clearTimeout(request.bodyDeadline);
    done();
  });
}
