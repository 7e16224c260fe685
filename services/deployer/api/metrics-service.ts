import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import type { ServiceImpl } from "@connectrpc/connect";
import type { MetricsService } from "../../../proto/gen/berth/deployer/v1/metrics_pb.ts";
import type { Pool } from "../../kit/postgres/db.ts";
import { conflict, invalid } from "../../kit/rpc/refusals.ts";
import type { AddonReaders } from "../addons/port.ts";
import type { ReadStatistics } from "../addons/statistics/read-statistics.ts";
import { readMetrics, type SeriesSource, toSpan } from "../metrics/read.ts";
import { requireService, serviceDeleting } from "../projects/require.ts";
import type { Logger } from "../shared/logger.ts";
import { type AddonType, isDeployable, type ServiceType } from "../terms/services.ts";

export type MetricsDeps = {
  pool: Pool;
  runtime: SeriesSource;
  addonServers: Pick<AddonReaders, "unmeasured" | "readSeries">;
  readStatistics: ReadStatistics;
  log: Logger;
};

/** What services use, which requests they answer, and what is in addons (docs/metrics.md#series). */
export function metricsService({
  pool,
  runtime,
  addonServers,
  readStatistics,
  log,
}: MetricsDeps): ServiceImpl<typeof MetricsService> {
  const ofAddon = (type: AddonType): SeriesSource => ({
    unmeasured: addonServers.unmeasured(type),
    readSeries: addonServers.readSeries,
  });
  return {
    async getMetrics(request) {
      const found = await requireService(pool, request);
      const type = found.type as ServiceType | AddonType;
      const source = isDeployable(type) ? runtime : ofAddon(type);
      const { from, to, step } = request;
      const given = { from: from && timestampMs(from), to: to && timestampMs(to), step };
      const span = toSpan(given, Date.now());
      const service = { id: found.id, type, environmentId: request.environmentId };
      const { series, unavailable } = await readMetrics({ db: pool, source, log }, service, span);
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

    async getStatistics(request) {
      const { id, type, deleting, addonState } = await requireService(pool, request);
      if (isDeployable(type))
        throw invalid("service", "not_addon", `A ${type} service has no statistics: it is no addon.`);
      if (deleting) throw serviceDeleting();
      if (addonState !== "ready") throw conflict("service_not_ready", "The addon has no server yet.");
      return readStatistics(request.accountId, id);
    },
  };
}
