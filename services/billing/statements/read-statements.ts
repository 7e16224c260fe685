import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type {
  ListStatementsRequest,
  StatementSchema,
  StatementSummarySchema,
} from "../../../proto/gen/berth/billing/v1/billing_pb.ts";
import type { Pool } from "../../kit/postgres/db.ts";
import type { Cursors } from "../../kit/postgres/paging.ts";
import { notFound } from "../../kit/rpc/refusals.ts";
import { toExactUsd } from "../money/nano-usd.ts";
import { listAdjustments } from "../usage/closing/owed-sql.ts";
import { monthOf } from "../usage/periods.ts";
import * as sql from "./sql.ts";
import { chargedCents, type ExplainedPeriod, explainPeriod } from "./statement.ts";

type Deps = { pool: Pool; cursors: Cursors };

export type StatementReads = ReturnType<typeof createStatementReads>;

/** Reading the statements of closed periods (docs/billing.md#statements). Nothing but the database is asked. */
export function createStatementReads({ pool, cursors }: Deps) {
  async function explain(accountId: string, period: sql.ClosedPeriod): Promise<ExplainedPeriod> {
    const unnamed = period.lines.flatMap(({ serviceId, serviceName }) =>
      serviceId !== undefined && serviceName === undefined ? serviceId : [],
    );
    const [adjustments, names] = await Promise.all([
      listAdjustments(pool, accountId, period),
      unnamed.length > 0 ? sql.listServiceNames(pool, unnamed) : [],
    ]);
    return explainPeriod(period, {
      adjustments,
      names: new Map(names.map((each) => [each.serviceId, each])),
    });
  }

  return {
    async listStatements({ accountId, ...page }: ListStatementsRequest) {
      const { data, page: next } = await cursors.page(
        `statements:${accountId}`,
        page,
        async ({ before, limit }) => {
          const newest = before === undefined ? ALL_TIME : Number(before);
          const periods = await sql.listClosedPeriods(pool, accountId, { before: newest, months: limit });
          const months = Map.groupBy(periods, ({ start }) => monthOf(start).start);
          return [...months]
            .reverse()
            .map(([start, found]) => ({ ...toSummary(start, found), id: String(start) }));
        },
      );
      return { data: data.map(({ id: _id, ...summary }) => summary), page: next };
    },

    /** Throws 404 for a month, such as `2026-11`, in which no closed period began. */
    async getStatement(accountId: string, month: string): Promise<MessageInitShape<typeof StatementSchema>> {
      const start = MONTH.test(month) ? Date.parse(`${month}-01T00:00:00Z`) / 1_000 : Number.NaN;
      if (Number.isNaN(start)) throw notFound("statement");
      const { end } = monthOf(start);
      const found = await sql.listClosedPeriods(pool, accountId, { before: end, months: 1 });
      const periods = found.filter((period) => period.start >= start);
      if (periods.length === 0) throw notFound("statement");
      const explained = await Promise.all(periods.map((period) => explain(accountId, period)));
      const charged = explained.reduce((sum, each) => sum + each.chargedCents, 0n);
      return {
        month,
        periods: explained.map(({ period }) => period),
        lines: explained.flatMap(({ lines }) => lines),
        chargedUsd: Number(charged) / 100,
      };
    },
  };
}

const MONTH = /^\d{4}-(?:0[1-9]|1[0-2])$/;
/** Later than all months, in seconds. */
const ALL_TIME = Date.UTC(9999, 11, 31) / 1_000;

function toSummary(
  start: number,
  periods: sql.ClosedPeriod[],
): MessageInitShape<typeof StatementSummarySchema> {
  const usage = periods.reduce((sum, { accrued }) => sum + BigInt(accrued), 0n);
  const charged = periods.reduce((sum, period) => sum + chargedCents(period), 0n);
  return {
    month: new Date(start * 1_000).toISOString().slice(0, 7),
    periodStart: timestampFromMs(periods[0]!.start * 1_000),
    periodEnd: timestampFromMs(Math.max(...periods.map(({ end }) => end)) * 1_000),
    usageUsd: toExactUsd(usage),
    chargedUsd: Number(charged) / 100,
  };
}
