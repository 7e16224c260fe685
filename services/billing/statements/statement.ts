import type { MessageInitShape } from "@bufbuild/protobuf";
import { type Timestamp, timestampFromMs } from "@bufbuild/protobuf/wkt";
import type {
  StatementLineSchema,
  StatementPeriodSchema,
} from "../../../proto/gen/berth/billing/v1/billing_pb.ts";
import { NANO_PER_CENT, toCents, toExactUsd } from "../money/nano-usd.ts";
import { creditOf } from "../pricing/compute.ts";
import type { AdjustmentRow } from "../usage/closing/owed-sql.ts";
import type { StatementLine } from "../usage/closing/sql.ts";
import type { ClosedPeriod, ServiceName } from "./sql.ts";

type LineMessage = MessageInitShape<typeof StatementLineSchema>;

/** What else explains a period: the corrections that count in it, and the names of services whose lines have none. */
export type Explanation = { adjustments: AdjustmentRow[]; names: ReadonlyMap<string, ServiceName> };

/** A closed period as the API explains it; `chargedCents` is the sum of its lines. */
export type ExplainedPeriod = {
  period: MessageInitShape<typeof StatementPeriodSchema>;
  lines: LineMessage[];
  chargedCents: bigint;
};

/**
 * Explains what a closed period came to (docs/billing.md#statements): amounts are exact, and the lines add up to what was
 * charged. Pure.
 */
export function explainPeriod(row: ClosedPeriod, explanation: Explanation): ExplainedPeriod {
  const amounts = amountsOf(row);
  const { due, credit, tax, charged, rounding, carriedOver, adjustment } = amounts;
  const { invoiceId, invoiceNumber, invoicedCents } = row;
  const span = { periodStart: toTimestamp(row.start), periodEnd: toTimestamp(row.end) };
  return {
    period: {
      ...span,
      tierId: row.tier,
      billed: row.billed,
      usageUsd: toExactUsd(BigInt(row.accrued)),
      allowanceUsd: toExactUsd(BigInt(row.allowance)),
      adjustmentUsd: toExactUsd(adjustment),
      carriedOverUsd: toExactUsd(carriedOver),
      roundingUsd: toExactUsd(rounding),
      dueUsd: toExactUsd(due),
      creditUsd: toExactUsd(credit),
      chargedUsd: toExactUsd(charged),
      ...(invoiceId && { invoiceId }),
      ...(invoiceNumber && { invoiceNumber }),
      ...(invoicedCents !== null && { invoicedUsd: invoicedCents / 100 }),
      ...(tax !== 0n && { taxUsd: toExactUsd(tax) }),
      closedAt: row.closedAt,
    },
    lines: linesOf(row, amounts, explanation).map((line) => ({ ...span, ...line })),
    chargedCents: charged / NANO_PER_CENT,
  };
}

/** Returns what was charged for a period, in cents. */
export const chargedCents = (row: ClosedPeriod) => amountsOf(row).charged / NANO_PER_CENT;

/** Returns what a period's total is made of, in nano-USD. */
function amountsOf(row: ClosedPeriod) {
  const { tier, billed, owedLater, dueCents, creditCents } = row;
  const due = BigInt(dueCents) * NANO_PER_CENT;
  const used = BigInt(row.accrued) - BigInt(row.allowance);
  const adjustment = BigInt(row.adjustment);
  const exact = row.lines.reduce((sum, line) => sum + netOf(line), 0n);
  const ofPlan = creditCents === null ? toCents(creditOf(tier)) : BigInt(creditCents);
  const creditOfPlan = ofPlan * NANO_PER_CENT;
  const credit = billed ? (creditOfPlan < due ? creditOfPlan : due) : 0n;
  const tax = billed ? BigInt(row.taxCents ?? 0) * NANO_PER_CENT : 0n;
  return {
    due,
    adjustment,
    credit,
    tax,
    carriedOver: exact - used - adjustment,
    rounding: due - exact,
    charged: billed && !owedLater ? due - credit + tax : 0n,
  };
}

const netOf = ({ accrued, allowance }: StatementLine) => BigInt(accrued) - BigInt(allowance);

const NOT_CHARGED = {
  never: "Not charged: the account had no subscription",
  later: "Not charged here: the next subscription charges what is beyond the allowance",
};

function linesOf(
  row: ClosedPeriod,
  { due, credit, tax, charged, rounding, carriedOver, adjustment }: ReturnType<typeof amountsOf>,
  { adjustments, names }: Explanation,
): LineMessage[] {
  const line = (kind: string, description: string, amount: bigint): LineMessage[] =>
    amount === 0n ? [] : [{ kind, description, amountUsd: toExactUsd(amount) }];
  return [
    ...row.lines.flatMap((each) => serviceLine(each, names)),
    ...adjustmentLines(adjustments, adjustment).flatMap(({ description, amount }) =>
      line("adjustment", description, amount),
    ),
    ...line("carried_over", "Carried over to the next period: less was used than is returned", carriedOver),
    ...line("rounding", "Rounding to whole cents", rounding),
    ...line("credit", `Credit of the ${row.tier} plan`, -credit),
    ...line("tax", `Taxes, as on invoice ${row.invoiceNumber ?? row.invoiceId ?? ""}`.trim(), tax),
    ...line("not_charged", NOT_CHARGED[row.owedLater ? "later" : "never"], charged - (due - credit + tax)),
  ];
}

function serviceLine(each: StatementLine, names: Explanation["names"]): LineMessage[] {
  const { serviceId, type, accrued, allowance } = each;
  if (serviceId === undefined) return [];
  const known = names.get(serviceId);
  const serviceName = each.serviceName ?? known?.serviceName ?? serviceId;
  const projectName = each.projectName ?? known?.projectName ?? "";
  const less = BigInt(allowance) > 0n ? ", less the allowance" : "";
  return [
    {
      kind: "service",
      description: `${type} service ${serviceName}${projectName && ` of ${projectName}`}${less}`,
      serviceId,
      serviceName,
      projectName,
      serviceType: type,
      usageUsd: toExactUsd(BigInt(accrued)),
      allowanceUsd: toExactUsd(BigInt(allowance)),
      amountUsd: toExactUsd(netOf(each)),
    },
  ];
}

const REASONS: Record<AdjustmentRow["reason"], string> = {
  late_usage: "Usage that was reported late or corrected, of the period from",
  carried: "Returned, carried over from the period from",
  invoiced: "Difference between usage and invoice, of the period from",
  grace: "Compute beyond the allowance while there was no plan, in the period from",
  uninvoiced: "Compute of the subscription that ended before, in the period from",
};

/** Returns the corrections one by one, or as one if they are not those that the statement counted. */
function adjustmentLines(rows: AdjustmentRow[], total: bigint) {
  if (rows.reduce((sum, { amount }) => sum + BigInt(amount), 0n) !== total)
    return [{ description: "Corrections of earlier periods", amount: total }];
  return rows.map(({ periodStart, reason, amount }) => ({
    description: `${REASONS[reason]} ${new Date(periodStart * 1_000).toISOString().slice(0, 10)}`,
    amount: BigInt(amount),
  }));
}

function toTimestamp(seconds: number): Timestamp {
  return timestampFromMs(seconds * 1_000);
}
