import {
  type Attributes,
  context,
  propagation,
  type Span,
  SpanKind,
  SpanStatusCode,
  trace,
} from "@opentelemetry/api";
import { Counter, collectDefaultMetrics, Histogram, register } from "prom-client";

/**
 * Sends traces to an OTLP/HTTP collector (`OTEL_EXPORTER_OTLP_ENDPOINT`); without one, spans cost
 * nothing. Metrics are always collected, for GET /metrics.
 */
export async function startTelemetry(service: string, otlpUrl: string | undefined) {
  register.setDefaultLabels({ service });
  if (!register.getSingleMetric("process_cpu_user_seconds_total")) collectDefaultMetrics();
  if (!otlpUrl) return { stop: async () => {} };
  // Loaded only where traces go somewhere: the SDK is a tenth of a process's memory.
  const { OTLPTraceExporter } = await import("@opentelemetry/exporter-trace-otlp-http");
  const { resourceFromAttributes } = await import("@opentelemetry/resources");
  const { BatchSpanProcessor, NodeTracerProvider } = await import("@opentelemetry/sdk-trace-node");
  const provider = new NodeTracerProvider({
    resource: resourceFromAttributes({ "service.name": `berth-${service}` }),
    spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter({ url: `${otlpUrl}/v1/traces` }))],
  });
  provider.register();
  return { stop: () => provider.shutdown().catch(() => {}) };
}

/** Duration of RPCs in seconds, by method and outcome. */
export const rpcDuration = new Histogram({
  name: "berth_rpc_duration_seconds",
  help: "Duration of RPCs by method and code",
  labelNames: ["method", "code"],
  buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10],
});

/** Errors nobody foresaw; each has a request id in the log. */
export const internalErrors = new Counter({
  name: "berth_internal_errors_total",
  help: "Errors answered as internal or unavailable, by method",
  labelNames: ["method"],
});

/** All metrics in the text format of Prometheus. */
export function metricsText(): Promise<string> {
  return register.metrics();
}

/** Runs work in a span that continues the trace of the given headers. */
export async function traced<T>(
  name: string,
  kind: SpanKind,
  carrier: { traceparent?: string },
  work: (span: Span) => Promise<T>,
): Promise<T> {
  const parent = propagation.extract(context.active(), carrier);
  const span = trace.getTracer("berth").startSpan(name, { kind }, parent);
  try {
    return await context.with(trace.setSpan(parent, span), () => work(span));
  } catch (error) {
    span.setStatus({ code: SpanStatusCode.ERROR });
    throw error;
  } finally {
    span.end();
  }
}

/** Starts the span of a request that is answered by a callback; `traceparent` continues its trace further. */
export function serverSpan(name: string, traceparent: string | undefined) {
  const parent = propagation.extract(context.active(), { traceparent });
  const span = trace.getTracer("berth").startSpan(name, { kind: SpanKind.SERVER }, parent);
  const carrier: { traceparent?: string } = {};
  propagation.inject(trace.setSpan(parent, span), carrier);
  return {
    traceparent: carrier.traceparent,
    end: (failed: boolean, attributes: Attributes) => {
      if (failed) span.setStatus({ code: SpanStatusCode.ERROR });
      span.setAttributes(attributes).end();
    },
  };
}
