import { setTimeout as delay } from "node:timers/promises";
import {
  type Attributes,
  context,
  propagation,
  type Span,
  SpanKind,
  SpanStatusCode,
  trace,
} from "@opentelemetry/api";
import { Counter, collectDefaultMetrics, Gauge, Histogram, register } from "prom-client";

/**
 * Starts sending traces to an OTLP/HTTP collector (`OTEL_EXPORTER_OTLP_ENDPOINT`), if there is one. Metrics are always
 * collected, for GET /metrics.
 */
export async function startTelemetry(service: string, otlpUrl: string | undefined) {
  register.setDefaultLabels({ service });
  if (!register.getSingleMetric("process_cpu_user_seconds_total")) collectDefaultMetrics();
  if (!otlpUrl) return { stop: async () => {} };
  // Loaded only when it is needed: the SDK takes a tenth of a process's memory.
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

/** Durations of RPCs in seconds. */
export const rpcDuration = new Histogram({
  name: "berth_rpc_duration_seconds",
  help: "Duration of RPCs by method and code",
  labelNames: ["method", "code"],
  buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10],
});

/** Unexpected errors. Each is in the log, with its request id. */
export const internalErrors = new Counter({
  name: "berth_internal_errors_total",
  help: "Errors answered as internal or unavailable, by method",
  labelNames: ["method"],
});

/** The longest that a scrape waits for a value that has to be read; a scrape may take 10 s. */
const READ_MS = 2_000;

/**
 * Returns a function that says how a gauge is read, at each scrape. A value that cannot be read within 2 s is not in the
 * metrics. Several processes may report what they share: alerts and panels take the `max`.
 */
export function createReadGauge(given: { name: string; help: string }) {
  let source: (() => Promise<number>) | undefined;
  // At most one at a time, however long what it asks does not answer.
  let reading: Promise<number> | undefined;
  const gauge: Gauge = new Gauge({
    ...given,
    async collect() {
      const late = delay(READ_MS, undefined, { ref: false });
      reading ??= source?.().finally(() => {
        reading = undefined;
      });
      const value = await Promise.race([reading, late]).catch(() => undefined);
      if (value === undefined) gauge.remove();
      else gauge.set(value);
    },
  });
  return (read: () => Promise<number>): void => {
    source = read;
  };
}

/** Returns all metrics in the text format of Prometheus. */
export function metricsText(): Promise<string> {
  return register.metrics();
}

/** Runs `work` in a span that continues the trace of the given headers, and returns its result. */
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

/** Starts the span of a request that is answered in a callback. `traceparent` of the result continues its trace. */
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
