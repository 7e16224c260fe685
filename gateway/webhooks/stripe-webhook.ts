import type { Client } from "@connectrpc/connect";
import type { FastifyInstance, FastifyRequest } from "fastify";
import type { InternalService } from "../../proto/gen/berth/billing/v1/internal_pb.ts";
import type { Logger } from "../../services/kit/log.ts";
import { fromClientError } from "../http/problem.ts";
import { errorResponse, type GatewayResponse } from "../http/response.ts";
import { beginMeasured, sendResponse } from "../http/send-response.ts";
import { observer } from "../metrics/request-metrics.ts";

const PATH = "/webhooks/stripe";
const MAX_PAYLOAD = 1024 * 1024;

type Deps = { billing: Client<typeof InternalService>; tracing: boolean; log: Logger };

/**
 * Registers what the payment provider reports to (docs/billing.md#webhook). The signature is of the body's bytes, so that
 * they pass as they came; billing verifies it. Not limited by address: all webhooks of all installations come from a few,
 * and after any answer but 200 the provider sends one again for days.
 */
export function registerStripeWebhook(app: FastifyInstance, { billing, tracing, log }: Deps): void {
  const measure = observer("POST", PATH, { tracing, log });

  async function pass(request: FastifyRequest): Promise<GatewayResponse> {
    const payload = (request.body as Buffer | undefined) ?? Buffer.alloc(0);
    const signature = String(request.headers["stripe-signature"] ?? "");
    try {
      await billing.receiveWebhook({ payload, signature }, { headers: { "x-request-id": request.id } });
      return { status: 200, body: Buffer.from('{"received":true}') };
    } catch (error) {
      return errorResponse(fromClientError("billing", error, request.id), request.id);
    }
  }

  app.register(async (scope) => {
    scope.removeAllContentTypeParsers();
    const bytes = { parseAs: "buffer", bodyLimit: MAX_PAYLOAD } as const;
    scope.addContentTypeParser("*", bytes, (_request, body, done) => done(null, body));
    scope.post(PATH, {
      onRequest: async (request) => {
        request.exchange = beginMeasured(request, measure);
      },
      handler: async (request, reply) => sendResponse(request, reply, await pass(request)),
    });
  });
}
