import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { expect, inject, test } from "vitest";
import { createRandom } from "../../kit/testing/random.ts";
import { toCents } from "../money/nano-usd.ts";
import type { ClosedPeriod } from "./sql.ts";
import { explainPeriod } from "./statement.ts";

const DAY = 86_400;
const NAMES = { names: new Map(), adjustments: [] };

type Made = { service: bigint; allowance: bigint }[];

/** A closed period of services, with a correction of an earlier one, as freezing writes it. */
function closed(services: Made, adjustment = 0n, change: Partial<ClosedPeriod> = {}): ClosedPeriod {
  const sum = (values: bigint[]) => values.reduce((total, value) => total + value, 0n);
  const accrued = sum(services.map(({ service }) => service));
  const allowance = sum(services.map((each) => each.allowance));
  const net = accrued - allowance + adjustment;
  const due = net > 0n ? net : 0n;
  const line = (type: string, amount: bigint, allowance = 0n) => ({
    type,
    accrued: String(amount),
    allowance: String(allowance),
    cents: "0",
  });
  return {
    start: 1_790_000_000,
    end: 1_790_000_000 + 30 * DAY,
    tier: "pro",
    taxCents: null,
    owedLater: false,
    billed: true,
    accrued: String(accrued),
    allowance: String(allowance),
    adjustment: String(adjustment),
    dueCents: Number(toCents(due)),
    creditCents: 1_000,
    lines: [
      ...services.map(({ service, allowance }, n) => ({
        ...line("web", service, allowance),
        serviceId: `svc_${n}`,
      })),
      ...(adjustment === 0n ? [] : [line("adjustment", adjustment)]),
      ...(due === net ? [] : [line("carried", due - net)]),
    ],
    closedAt: timestampFromMs(0),
    invoiceId: null,
    invoiceNumber: null,
    invoicedCents: null,
    ...change,
  };
}

/** Dollars as billionths, exact for what a statement shows. */
const nano = (usd: number | undefined) => BigInt(Math.round((usd ?? 0) * 1e9));
const added = (amounts: (number | undefined)[]) =>
  amounts.reduce((sum: bigint, amount) => sum + nano(amount), 0n);

test("shown amounts add up exactly, whatever ran, is corrected or is credited", () => {
  const { next } = createRandom(inject("seed"));
  const upTo = (max: number) => BigInt(Math.floor(next() * max));
  for (let n = 0; n < 500; n++) {
    const services = Array.from({ length: Math.floor(next() * 4) }, () => {
      const service = upTo(next() < 0.3 ? 1e7 : 40e9);
      return { service, allowance: next() < 0.5 ? 0n : service / 3n };
    });
    const adjustment = next() < 0.5 ? 0n : upTo(8e9) - 4_000_000_000n;
    const row = closed(services, adjustment, {
      billed: next() < 0.8,
      creditCents: next() < 0.2 ? null : 1_000,
    });
    const { period, lines, chargedCents } = explainPeriod(row, NAMES);
    expect(added(lines.map(({ amountUsd }) => amountUsd))).toBe(nano(period.chargedUsd));
    expect(nano(period.chargedUsd)).toBe(chargedCents * 10_000_000n);
    const { usageUsd, allowanceUsd, adjustmentUsd, carriedOverUsd, roundingUsd, dueUsd, creditUsd } = period;
    const due = added([usageUsd, adjustmentUsd, carriedOverUsd, roundingUsd]) - nano(allowanceUsd);
    expect(due).toBe(nano(dueUsd));
    expect(nano(dueUsd)).toBe(BigInt(row.dueCents) * 10_000_000n);
    if (row.billed) expect(nano(dueUsd) - nano(creditUsd)).toBe(nano(period.chargedUsd));
    expect(Math.abs(roundingUsd!)).toBeLessThanOrEqual(0.005);
  }
});

test("each correction has its own line, with its reason and the period that it corrects", () => {
  const adjustments = [
    { periodStart: Date.UTC(2027, 0, 5) / 1_000, reason: "late_usage" as const, amount: "70000000" },
    { periodStart: Date.UTC(2027, 1, 5) / 1_000, reason: "carried" as const, amount: "-20000000" },
  ];
  const row = closed([{ service: 30_000_000_000n, allowance: 0n }], 50_000_000n);
  const described = (found: typeof adjustments) =>
    explainPeriod(row, { ...NAMES, adjustments: found })
      .lines.filter(({ kind }) => kind === "adjustment")
      .map(({ description, amountUsd }) => [description, amountUsd]);
  expect(described(adjustments)).toEqual([
    ["Usage that was reported late or corrected, of the period from 2027-01-05", 0.07],
    ["Returned, carried over from the period from 2027-02-05", -0.02],
  ]);
  // What was found since is not what the statement counted.
  expect(described(adjustments.slice(0, 1))).toEqual([["Corrections of earlier periods", 0.05]]);
});

test("what an earlier version closed has the plan's credit, and the names of its services as they are now", () => {
  const names = new Map([["svc_0", { serviceId: "svc_0", serviceName: "api", projectName: "shop" }]]);
  const row = closed([{ service: 4_000_000_000n, allowance: 1_000_000_000n }], 0n, { creditCents: null });
  const { period, lines } = explainPeriod(row, { adjustments: [], names });
  expect(period).toMatchObject({ dueUsd: 3, creditUsd: 3, chargedUsd: 0 });
  expect(lines.map(({ description }) => description)).toEqual([
    "web service api of shop, less the allowance",
    "Credit of the pro plan",
  ]);
});
