import type { DescService } from "@bufbuild/protobuf";
import { type Client, createClient, type Interceptor } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-node";
import { context, propagation } from "@opentelemetry/api";
import { CALLER_HEADER, signCaller } from "./caller-token.ts";
import { tryFormerName } from "./former-names.ts";
import { retryUnsent } from "./unsent.ts";

/**
 * Returns a typed client of another service that acts as the named one. A call times out after 10 s. Refusals of the
 * other service are thrown as they are.
 */
export function serviceClient<S extends DescService>(
  service: S,
  options: { url: string; keys: Buffer[]; name: string },
): Client<S> {
  const sign: Interceptor = (next) => (req) => {
    const caller = { kind: "service" as const, id: options.name, ip: "" };
    req.header.set(CALLER_HEADER, signCaller(options.keys, caller));
    const carrier: Record<string, string> = {};
    propagation.inject(context.active(), carrier);
    if (carrier.traceparent) req.header.set("traceparent", carrier.traceparent);
    return next(req);
  };
  const transport = createConnectTransport({
    httpVersion: "1.1",
    baseUrl: options.url,
    useBinaryFormat: true,
    acceptCompression: [],
    defaultTimeoutMs: 10_000,
    interceptors: [sign, tryFormerName, tryUnsent],
  });
  return createClient(service, transport);
}

const tryUnsent: Interceptor = (next) => (req) => (req.stream ? next(req) : retryUnsent(() => next(req)));
