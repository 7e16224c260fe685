import type { MessageInitShape } from "@bufbuild/protobuf";
import { type Timestamp, timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import type {
  ComputeUsageLineSchema,
  ComputeUsageSchema,
  ListComputeUsageLinesRequest,
} from "../../../proto/gen/berth/billing/v1/billing_pb.ts";
import type { Pool } from "../../kit/postgres/db.ts";
import type { Cursors } from "../../kit/postgres/paging.ts";
import { toExactUsd, toUsd } from "../money/nano-usd.ts";
import { creditOf, hasAllowance } from "../pricing/compute.ts";
import { owedNow } from "../usage/closing/owed.ts";
import {
  findPeriod,
  type PeriodUsage,
  type PlannedPeriod,
  ratePeriod,
  type TierOf,
} from "../usage/read-usage.ts";
import { type LineRow, listLines } from "../usage/sql.ts";
import { windowOf } from "../usage/sums.ts";

type Deps = { pool: Pool; cursors: Cursors; tierOf: TierOf; now: () => number };

export type UsageReads = ReturnType<typeof createUsageReads>;

/** Reading the ledger (docs/billing.md#usage). Nothing but the database is asked. */
export function createUsageReads({ pool, cursors, tierOf, now }: Deps) {
  const seconds = () => Math.floor(now() / 1_000);
  return {
    async getComputeUsage(accountId: string) {
      const at = seconds();
      const period = await findPeriod(pool, tierOf, accountId, at);
      const usage = await ratePeriod(pool, accountId, period, at);
      const owedUsd = toUsd(await owedNow(pool, accountId, at));
      return { ...toMessage(period, at, usage), owedUsd };
    },

    /** Pages stay in the period of the first one, also when it ends meanwhile. */
    async listLines({ accountId, serviceId, at, ...page }: ListComputeUsageLinesRequest) {
      const now = seconds();
      const list = `compute-usage:${accountId}:${serviceId ?? ""}:${at ? timestampMs(at) : ""}`;
      const { data, page: next } = await cursors.page(
        list,
        page,
        async ({ before, limit }) => {
          const [within, start, intervalId, seq] = before?.split(" ") ?? [];
          const asked = at ? Math.floor(timestampMs(at) / 1_000) : now;
          const period = await findPeriod(pool, tierOf, accountId, within ? Number(within) : asked);
          const from = start && intervalId && seq ? { start, intervalId, seq } : undefined;
          const rows = await listLines(pool, accountId, windowOf(period, now), serviceId, {
            before: from,
            limit,
          });
          return rows.map((row) => ({ ...row, position: `${period.start} ${row.position}` }));
        },
        ({ position }) => position,
      );
      return { data: data.map(toLine), page: next };
    },
  };
}

function toMessage(
  period: PlannedPeriod,
  now: number,
  { rated, rows, adjustment }: PeriodUsage,
): MessageInitShape<typeof ComputeUsageSchema> {
  const names = new Map(rows.map((row) => [row.serviceId, row]));
  const covered = rated.services.filter(({ allowance }) => allowance > 0n);
  const credit = creditOf(period.tier);
  return {
    periodStart: toTimestamp(period.start),
    periodEnd: toTimestamp(period.end),
    asOf: toTimestamp(Math.min(now, period.end)),
    accruedUsd: toUsd(rated.accrued),
    adjustmentUsd: toUsd(adjustment),
    netUsd: toUsd(rated.net),
    projectedNetUsd: toUsd(rated.projectedNet),
    allowance: {
      eligible: hasAllowance(period.tier),
      appliedUsd: toUsd(rated.allowance),
      byType: Object.fromEntries(
        covered.map(({ type, allowance, serviceId }) => [
          type,
          { appliedUsd: toUsd(allowance), coveredServiceId: serviceId },
        ]),
      ),
    },
    credit: {
      includedUsd: toUsd(credit),
      appliedUsd: toUsd(rated.creditApplied),
      remainingUsd: toUsd(credit - rated.creditApplied),
    },
    services: rated.services.map(({ serviceId, type, accrued, allowance }) => ({
      serviceId,
      serviceName: names.get(serviceId)?.serviceName,
      projectName: names.get(serviceId)?.projectName,
      type,
      accruedUsd: toUsd(accrued),
      allowanceAppliedUsd: toUsd(allowance),
    })),
  };
}

function toLine(row: LineRow): MessageInitShape<typeof ComputeUsageLineSchema> {
  const { id: _id, position: _position, rate, seconds, ...line } = row;
  const accrued = BigInt(rate) * BigInt(row.replicas) * BigInt(seconds);
  return { ...line, seconds, nanoUsdPerSecond: rate, accruedUsd: toExactUsd(accrued) };
}

function toTimestamp(seconds: number): Timestamp {
  return timestampFromMs(seconds * 1_000);
}
