import fc from "fast-check";
import { expect, test } from "vitest";
import { creditOf, rateOf } from "../pricing/compute.ts";
import { type Period, periodAt } from "./periods.ts";
import { type Rated, rate, type Terms, type UsageSum } from "./rating.ts";

type Ran = { start: number; end?: number; size: string; replicas: number };
type Service = { id: string; type: string; ran: Ran[] };

const seconds = (iso: string) => Date.parse(iso) / 1_000;

/** Adds up what services ran in a period until a time, segment by segment. */
function sumsOf(services: Service[], { start, end }: Period, asOf: number): UsageSum[] {
  return services.flatMap(({ id, type, ran }) =>
    ran.flatMap((one) => {
      const until = Math.min(one.end ?? asOf, asOf, end);
      const length = BigInt(Math.max(0, until - Math.max(one.start, start)));
      const running = one.end === undefined && one.start <= asOf ? BigInt(one.replicas) : 0n;
      if (length === 0n && running === 0n) return [];
      const replicaSeconds = BigInt(one.replicas) * length;
      return { serviceId: id, type, rate: rateOf(type, one.size), seconds: length, replicaSeconds, running };
    }),
  );
}

function rateAt(services: Service[], period: Period, at: number, terms: Partial<Terms> = {}): Rated {
  const asOf = Math.min(at, period.end);
  const secondsLeft = BigInt(period.end - asOf);
  const given = { eligible: true, credit: 0n, adjustment: 0n, secondsLeft, ...terms };
  return rate(sumsOf(services, period, asOf), given);
}

const march = periodAt([], seconds("2026-03-10"));
const HOUR = 3_600;
const nano = { size: "nano", replicas: 1 };

test("the price list: vCPU, memory and disk, to the nano-dollar", () => {
  expect(["nano", "small", "medium", "large"].map((size) => rateOf("web", size))).toEqual([
    2_250n,
    4_500n,
    9_000n,
    24_000n,
  ]);
  expect([rateOf("worker", "nano"), rateOf("postgres", "nano"), rateOf("redis", "medium")]).toEqual([
    2_250n,
    2_310n,
    9_060n,
  ]);
  expect([creditOf("free"), creditOf("pro"), creditOf("team"), creditOf("enterprise")]).toEqual([
    0n,
    10n * 10n ** 9n,
    50n * 10n ** 9n,
    0n,
  ]);
  expect(() => rateOf("lambda", "nano")).toThrow("no service of type lambda");
  expect(rateOf("cron", "nano")).toBe(rateOf("worker", "nano"));
});

test("one of each type at the smallest size is free all month", () => {
  const services = ["web", "worker", "postgres", "redis"].map((type) => ({
    id: type,
    type,
    ran: [{ ...nano, start: march.start }],
  }));
  const rated = rateAt(services, march, march.end);
  expect([rated.net, rated.projectedNet, rated.accrued - rated.allowance]).toEqual([0n, 0n, 0n]);
  expect(rated.accrued).toBe((2_250n * 2n + 2_310n * 2n) * 31n * 86_400n);
});

test("of one type the service with the most allowance is covered, with one replica; of equals the oldest", () => {
  const ran = (hours: number, replicas: number) => [
    { start: march.start, end: march.start + hours * HOUR, size: "large", replicas },
  ];
  const services = [
    { id: "svc_b", type: "web", ran: ran(5, 1) },
    { id: "svc_c", type: "web", ran: ran(9, 2) },
    { id: "svc_a", type: "web", ran: ran(9, 1) },
    { id: "svc_d", type: "worker", ran: ran(1, 4) },
  ];
  const { services: rated } = rateAt(services, march, march.end);
  const covered = rated.flatMap(({ serviceId, allowance }) =>
    allowance > 0n ? [[serviceId, allowance]] : [],
  );
  expect(covered).toEqual([
    ["svc_a", 2_250n * 9n * 3_600n],
    ["svc_d", 2_250n * 3_600n],
  ]);
});

test("the plan without the allowance pays all, a credit pays first, and corrections count before it", () => {
  const services = [{ id: "svc_a", type: "web", ran: [{ ...nano, start: march.start, replicas: 2 }] }];
  const all = 2n * 2_250n * 31n * 86_400n;
  expect(rateAt(services, march, march.end, { eligible: false })).toMatchObject({ allowance: 0n, net: all });
  const credit = all / 4n;
  expect(rateAt(services, march, march.end, { credit }).net).toBe(all / 2n - credit);
  expect(rateAt(services, march, march.end, { credit, adjustment: -all }).net).toBe(0n);
  expect(rateAt(services, march, march.end, { credit, adjustment: 7n }).net).toBe(all / 2n + 7n - credit);
});

test("only what ran within the period counts, to the second: at its ends, at midnight, on a leap day", () => {
  const leap = periodAt([], seconds("2028-02-29"));
  const around = { ...nano, start: leap.start - 100, end: leap.end + 100 };
  const one = (ran: Ran) => rateAt([{ id: "svc_a", type: "web", ran: [ran] }], leap, leap.end + 100).accrued;
  expect(one(around)).toBe(29n * 86_400n * 2_250n);
  const day = { ...nano, start: seconds("2028-02-29"), end: seconds("2028-03-01") };
  expect(one(day)).toBe(86_400n * 2_250n);
  expect(one({ ...nano, start: leap.end, end: leap.end + 50 })).toBe(0n);
  expect(one({ ...nano, start: leap.end - 1 })).toBe(2_250n);
});

const type = fc.constantFrom("web", "worker", "postgres", "redis");
const size = fc.constantFrom("nano", "small", "medium", "large");
const stretch = fc.record({
  wait: fc.nat(20 * 86_400),
  length: fc.nat(10 * 86_400),
  size,
  replicas: fc.integer({ min: 1, max: 20 }),
});

/** Services around March, each with segments that do not overlap, the last of which may still run. */
const services = fc.array(
  fc.record({ type, stretches: fc.array(stretch, { maxLength: 6 }), runsOn: fc.boolean() }),
  { maxLength: 12 },
);

function build(drawn: typeof services extends fc.Arbitrary<infer T> ? T : never): Service[] {
  return drawn.map(({ type, stretches, runsOn }, index) => {
    let at = march.start - 10 * 86_400;
    const ran = stretches.map(({ wait, length, size, replicas }): Ran => {
      const start = at + wait;
      at = start + length;
      return { start, end: at, size, replicas };
    });
    if (runsOn && ran.length > 0) delete ran.at(-1)!.end;
    return { id: `svc_${String(index).padStart(2, "0")}`, type, ran };
  });
}

const times = fc
  .tuple(fc.nat(31 * 86_400), fc.nat(31 * 86_400))
  .map(([a, b]) => [Math.min(a, b), Math.max(a, b)]);
const terms = fc.record({
  eligible: fc.boolean(),
  credit: fc.bigInt({ min: 0n, max: 100n * 10n ** 9n }),
  adjustment: fc.bigInt({ min: -(10n ** 11n), max: 10n ** 11n }),
});

test("never negative; the allowance is part of what accrued; credit applied and left are the credit", () => {
  fc.assert(
    fc.property(services, times, terms, (drawn, [at], given) => {
      const rated = rateAt(build(drawn), march, march.start + at!, given);
      expect(rated.net >= 0n && rated.creditApplied >= 0n && rated.creditApplied <= given.credit).toBe(true);
      expect(rated.allowance <= rated.accrued).toBe(true);
      for (const one of rated.services) expect(one.allowance <= one.accrued).toBe(true);
      const due = rated.accrued - rated.allowance + given.adjustment;
      expect(rated.net + rated.creditApplied).toBe(due > 0n ? due : 0n);
      const byType = rated.services.filter(({ allowance }) => allowance > 0n).map((one) => one.type);
      expect(new Set(byType).size).toBe(byType.length);
    }),
    { numRuns: 2_000 },
  );
});

test("what accrued, is due and is projected never falls while time passes; the projection is at least the net", () => {
  fc.assert(
    fc.property(services, times, terms, (drawn, [earlier, later], given) => {
      const all = build(drawn);
      // What is known at the earlier time: what stops later still runs then.
      const known = all.map((one) => ({
        ...one,
        ran: one.ran.flatMap(({ end, ...rest }): Ran[] => {
          if (rest.start > march.start + earlier!) return [];
          return end === undefined || end > march.start + earlier! ? [rest] : [{ ...rest, end }];
        }),
      }));
      const [first, second] = [
        rateAt(known, march, march.start + earlier!, given),
        rateAt(all, march, march.start + later!, given),
      ];
      for (const member of ["accrued", "allowance", "due", "net"] as const)
        expect(second[member] >= first[member]).toBe(true);
      expect(first.projectedNet >= first.net && second.projectedNet >= second.net).toBe(true);
    }),
    { numRuns: 2_000 },
  );
});

test("the projection is what the period costs when all runs on", () => {
  fc.assert(
    fc.property(services, times, terms, (drawn, [at], given) => {
      const now = march.start + at!;
      const running = build(drawn).map((one) => ({
        ...one,
        ran: one.ran.filter(({ start, end }) => start <= now && (end === undefined || end <= now)),
      }));
      const { projectedNet } = rateAt(running, march, now, given);
      expect(projectedNet).toBe(rateAt(running, march, march.end, given).net);
    }),
  );
});

test("cut anywhere, also by a period that changes, the parts of a period accrue what the whole does", () => {
  fc.assert(
    fc.property(services, times, (drawn, [cut]) => {
      const all = build(drawn);
      const middle = march.start + cut!;
      const parts = [
        { start: march.start, end: middle },
        { start: middle, end: march.end },
      ].map((part) => rateAt(all, part, march.end).accrued);
      expect(parts[0]! + parts[1]!).toBe(rateAt(all, march, march.end).accrued);
    }),
  );
});
