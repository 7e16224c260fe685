import type { DescService } from "@bufbuild/protobuf";
import { type Client, createClient, type Interceptor } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-node";
import { context, propagation } from "@opentelemetry/api";
import { CALLER_HEADER, signCaller } from "./caller-token.ts";
import { tryFormerName } from "./former-names.ts";

/**
 * A typed client of another service, acting as the named service. A call takes 10 s at most.
 * Errors arrive as the refusals of the other side.
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
    interceptors: [sign, tryFormerName],
  });
  return createClient(service, transport);
}
