import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import type { ServiceImpl } from "@connectrpc/connect";
import type { MetricsService } from "../../../proto/gen/berth/deployer/v1/metrics_pb.ts";
import type { Pool } from "../../kit/postgres/db.ts";
import { invalid } from "../../kit/rpc/refusals.ts";
import { readMetrics, toSpan } from "../metrics/read.ts";
import { requireService } from "../projects/require.ts";
import type { Runtime } from "../runtime/port.ts";
import type { Logger } from "../shared/logger.ts";
import { isDeployable } from "../terms/services.ts";

export type MetricsDeps = {
  pool: Pool;
  runtime: Pick<Runtime, "unmeasured" | "readSeries">;
  log: Logger;
};

/** What services use, and which requests they answer (docs/metrics.md#series). */
export function metricsService({ pool, runtime, log }: MetricsDeps): ServiceImpl<typeof MetricsService> {
  return {
    async getMetrics(request) {
      const { id, type } = await requireService(pool, request);
      if (!isDeployable(type)) throw notMeasured(type);
      const { from, to, step } = request;
      const given = { from: from && timestampMs(from), to: to && timestampMs(to), step };
      const span = toSpan(given, Date.now());
      const service = { id, type, environmentId: request.environmentId };
      const { series, unavailable } = await readMetrics({ db: pool, runtime, log }, service, span);
      return {
        from: timestampFromMs(span.from),
        to: timestampFromMs(span.to),
        step: span.stepMs / 1_000,
        series: series.map((one) => ({
          ...one,
          points: one.points.map(({ at, value }) => ({ at: timestampFromMs(at), value })),
        })),
        unavailable,
      };
    },
  };
}

function notMeasured(type: string) {
  return invalid(
    "service",
    "not_deployable",
    `A ${type} addon is not measured; only web, worker and cron services are.`,
  );
}
