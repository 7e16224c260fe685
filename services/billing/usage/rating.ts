import { freeRateOf } from "../pricing/compute.ts";

/** How long a service ran at one rate within a period. Rates are nano-USD a second of one replica. */
export type UsageSum = {
  serviceId: string;
  type: string;
  rate: bigint;
  seconds: bigint;
  /** The seconds of each replica, added up. */
  replicaSeconds: bigint;
  /** How many replicas run at the time of the question; 0 when this rate is not the current one. */
  running: bigint;
};

/** What applies to a period beside its usage. Amounts in nano-USD. */
export type Terms = {
  /** Whether the allowance applies. */
  eligible: boolean;
  credit: bigint;
  /** Corrections of earlier periods: positive ones are owed. */
  adjustment: bigint;
  /** Seconds from the time of the question to the end of the period. */
  secondsLeft: bigint;
};

/** What a service used. Amounts in nano-USD. */
export type RatedService = { serviceId: string; type: string; accrued: bigint; allowance: bigint };

export type Rated = {
  services: RatedService[];
  accrued: bigint;
  allowance: bigint;
  /** What is owed before the credit. */
  due: bigint;
  creditApplied: bigint;
  net: bigint;
  /** `net` at the end of the period if all runs on as it does. */
  projectedNet: bigint;
};

/**
 * Rates usage; pure and exact (docs/billing.md#usage). Of each type of service the allowance covers the one that it
 * pays most for, and of equals the oldest.
 */
export function rate(sums: UsageSum[], terms: Terms): Rated {
  const services = rateServices(sums, terms.eligible);
  const accrued = total(services.map((service) => service.accrued));
  const allowance = total(services.map((service) => service.allowance));
  const due = dueOf(services, terms);
  const creditApplied = due < terms.credit ? due : terms.credit;
  const projectedDue = dueOf(
    rateServices(
      sums.map((sum) => project(sum, terms)),
      terms.eligible,
    ),
    terms,
  );
  const projectedNet = projectedDue > terms.credit ? projectedDue - terms.credit : 0n;
  return { services, accrued, allowance, due, creditApplied, net: due - creditApplied, projectedNet };
}

function rateServices(sums: UsageSum[], eligible: boolean): RatedService[] {
  const services = new Map<string, RatedService>();
  for (const { serviceId, type, rate, seconds, replicaSeconds } of sums) {
    const one = services.get(serviceId) ?? { serviceId, type, accrued: 0n, allowance: 0n };
    const free = freeRateOf(type);
    one.accrued += rate * replicaSeconds;
    one.allowance += (rate < free ? rate : free) * seconds;
    services.set(serviceId, one);
  }
  // Ids sort by creation.
  const rated = [...services.values()].sort((a, b) => (a.serviceId < b.serviceId ? -1 : 1));
  const covered = new Map<string, RatedService>();
  if (eligible)
    for (const one of rated)
      if (one.allowance > (covered.get(one.type)?.allowance ?? 0n)) covered.set(one.type, one);
  return rated.map((one) => (covered.get(one.type) === one ? one : { ...one, allowance: 0n }));
}

function dueOf(services: RatedService[], { adjustment }: Terms): bigint {
  const due = total(services.map(({ accrued, allowance }) => accrued - allowance)) + adjustment;
  return due > 0n ? due : 0n;
}

function project(sum: UsageSum, { secondsLeft }: Terms): UsageSum {
  if (sum.running === 0n) return sum;
  return {
    ...sum,
    seconds: sum.seconds + secondsLeft,
    replicaSeconds: sum.replicaSeconds + sum.running * secondsLeft,
  };
}

function total(amounts: bigint[]): bigint {
  return amounts.reduce((sum, amount) => sum + amount, 0n);
}
