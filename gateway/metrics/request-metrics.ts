import { Histogram } from "prom-client";
import type { Logger } from "../../services/kit/log.ts";
import { serverSpan } from "../../services/kit/telemetry.ts";

const duration = new Histogram({
  name: "berth_http_request_duration_seconds",
  help: "Duration of REST requests by method, route and status",
  labelNames: ["method", "route", "status"],
  buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 30],
});

/** The outcome of a request whose client closed the connection before it had a response. */
export const CLIENT_LEFT = { status: 499 };

/** What the metric, the log line and the trace of an open request need. */
export type Observed = {
  startedAt: number;
  span: ReturnType<typeof serverSpan> | undefined;
  traceparent: string | undefined;
};

/** Measures the requests of one route; without `tracing`, no spans are made. */
export function observer(method: string, route: string, options: { tracing: boolean; log: Logger }) {
  const { tracing, log } = options;
  const byStatus = new Map<number, ReturnType<typeof duration.labels>>();
  const verbose = log.isLevelEnabled("debug");
  return {
    begin(traceparent: string | undefined): Observed {
      const startedAt = performance.now();
      if (!tracing) return { startedAt, span: undefined, traceparent };
      const span = serverSpan(`${method} ${route}`, traceparent);
      return { startedAt, span, traceparent: span.traceparent };
    },
    /** Records a response. A failed one is one line in the log, with its cause if that is known. */
    end(observed: Observed, response: Outcome, requestId: string): void {
      const { status, code, cause } = response;
      const ms = performance.now() - observed.startedAt;
      const timer = byStatus.get(status) ?? duration.labels(method, route, String(status));
      byStatus.set(status, timer);
      timer.observe(ms / 1000);
      observed.span?.end(status >= 500, { "http.response.status_code": status });
      if (status < 500 && !verbose) return;
      const line = { method, route, status, code, cause, ms: Math.round(ms * 10) / 10, requestId };
      if (status >= 500) log.warn(line, "request failed");
      else log.debug(line, "request");
    },
  };
}

type Outcome = { status: number; code?: string | undefined; cause?: string | undefined };

export type Observer = ReturnType<typeof observer>;
