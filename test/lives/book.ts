// What the words of the plans promise (docs/billing.md#plans, docs/billing.md#refunds), for one account: written without
// any of billing's code, from nothing but what happened and when. Times are whole seconds, amounts cents.

export type Term = {
  tier: "pro" | "team";
  year: boolean;
  start: number;
  end: number;
  /** When its period began: before its start, if a larger plan began within it. Then the rest is charged by the second. */
  from: number;
  /** A larger plan began then: what is left of plan and so many members was returned, less the discount. */
  settled?: { at: number; seats: number; discount: number };
  unpaid: boolean;
  discount: number;
  added: Added[];
  seats: number;
  /** What staff gave back of its payment. */
  givenBack: number;
};
/** Members who were added in a term beyond those that were paid: from how many to how many. */
export type Added = { at: number; from: number; to: number; unpaid: boolean; discount: number };
export type Service = { start: number; end?: number; nanoUsd: number };
export type Bought = {
  /** What is added to its prices, in percent. */
  tax: number;
  /** Which plan began when: a month of compute has the credit of the plan at its start. */
  plans: { at: number; tier: "pro" | "team" }[];
  /** When compute began to be billed. */
  computeFrom: number;
  computeEnds: number[];
  terms: Term[];
  /** When it ended; `now` is before the end of its term. Until then it runs. */
  end?: { at: number; now: boolean; refund: "made" | "waits" | "denied" };
};

const MONTHLY = { pro: 20_00, team: 100_00 };
const SEAT = 10_00;
const CREDIT = { pro: 10_00, team: 50_00 };
/** A nano web service: the allowance pays one at its rate. */
const FREE_NANO_USD = 2_250;
const HOUR = 3_600;

/** Returns what the account owes in all: for plans, members and compute, less what is refunded. */
export function promised(bought: Bought[], services: Service[], until: number): number {
  return sum(
    bought.map((one, n) => {
      const before = bought[n - 1]?.end?.at;
      const owed = before === undefined ? 0 : owedOf(services, before, one.computeFrom);
      return sum(one.terms.map((term) => termOf(one, term))) + computeOf(one, services, until, owed);
    }),
  );
}

/**
 * A term costs its price. One that was cut short costs nothing if it was never paid; if it was paid, a year costs what its
 * months cost, as far as that is less. What a larger plan took the place of was settled when that began. Tax is added to
 * each line of an invoice, and what is given back is given back with its tax.
 */
function termOf({ end, tax }: Bought, term: Term): number {
  const { tier, year, settled } = term;
  const factor = year ? 10 : 1;
  const rest = (at: number, month: number) =>
    Math.round((month * factor * (term.end - at)) / (term.end - term.from));
  const { start: at } = term;
  const lines = [
    { ...term, at, pieces: [rest(at, MONTHLY[tier])], month: MONTHLY[tier], back: term.givenBack },
    { ...term, at, pieces: [rest(at, SEAT * term.seats)], month: SEAT * term.seats, back: 0 },
    ...term.added.map((one) => {
      const pieces = [rest(one.at, SEAT * one.to), -rest(one.at, SEAT * one.from)];
      return { ...one, pieces, month: SEAT * (one.to - one.from), back: 0 };
    }),
    ...(settled
      ? [MONTHLY[tier], SEAT * settled.seats].map((month) => {
          return { ...term, ...settled, pieces: [-rest(settled.at, month)], month, back: 0 };
        })
      : []),
  ];
  const isCut = end?.now && end.at < term.end && !settled;
  return sum(
    lines.map(({ at, pieces, month, back, discount, unpaid }) => {
      const list = sum(pieces);
      const prices = pieces.map((piece) => piece - Math.round((piece * discount) / 100));
      const charged = sum(prices.map((price) => withTax(price, tax)));
      const paid = charged - back;
      if (!isCut) return paid;
      if (unpaid || list === 0) return 0;
      if (!year || end.refund !== "made") return paid;
      const before = Math.round((paid * sum(prices)) / charged);
      const kept = Math.round((monthsBegun(at, end.at) * month * before) / list);
      return paid - withTax(Math.max(0, before - kept), tax);
    }),
  );
}

/**
 * Returns by how many cents what is charged may differ: a year with a larger plan gives back parts of several invoices, of
 * that plan and of members, and the tax of each line of them is rounded.
 */
export function roundingOf(bought: Bought[]): number {
  return sum(
    bought.map(({ terms, end, tax }) => {
      const last = terms.at(-1)!;
      const isInParts = tax > 0 && last.year && terms.some(({ settled }) => settled);
      if (!isInParts || !end?.now || end.refund !== "made") return 0;
      return 2 + sum(terms.filter((one) => one.end === last.end).map(({ added }) => added.length));
    }),
  );
}

/** Returns an amount with its tax, which is rounded. */
function withTax(cents: number, tax: number): number {
  return cents + Math.sign(cents) * Math.round((Math.abs(cents) * tax) / 100);
}

/**
 * Compute costs what ran beyond the allowance, less the plan's credit for each of its months. The first has what ran without
 * a plan before.
 */
function computeOf(
  { plans, computeFrom, computeEnds, end, tax }: Bought,
  services: Service[],
  until: number,
  owed: number,
): number {
  const last = Math.min(end?.at ?? until, until);
  const bounds = [computeFrom, ...computeEnds.filter((at) => at > computeFrom && at < last), last];
  return sum(
    bounds.slice(1).map((to, n) => {
      const beyond = beyondAllowance(services, bounds[n]!, to) + (n === 0 ? owed : 0);
      const { tier } = plans.findLast(({ at }) => at <= bounds[n]!)!;
      return withTax(Math.max(0, toCents(beyond) - CREDIT[tier]), tax);
    }),
  );
}

/** Returns nano-USD as cents, halves as the even one (docs/billing.md#usage). */
function toCents(nanoUsd: number): number {
  const cents = Math.round(nanoUsd / 1e7);
  const isHalf = nanoUsd % 1e7 === 5e6;
  return isHalf && cents % 2 === 1 ? cents - 1 : cents;
}

/** What ran without a plan, after one has ended, is owed beyond the allowance of each calendar month. */
function owedOf(services: Service[], from: number, until: number): number {
  const date = new Date(from * 1_000);
  const month = Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1) / 1_000;
  const to = Math.min(month, until);
  if (from >= until) return 0;
  return beyondAllowance(services, from, to) + owedOf(services, to, until);
}

/** What services cost in a time, in nano-USD, without the allowance. */
function beyondAllowance(services: Service[], from: number, to: number): number {
  const seconds = services.map(({ start, end: stop = to }) =>
    Math.max(0, Math.min(stop, to) - Math.max(start, from)),
  );
  const all = sum(services.map(({ nanoUsd }, index) => nanoUsd * seconds[index]!));
  return all - FREE_NANO_USD * Math.max(0, ...seconds);
}

/** Whether a renewal's draft was not final yet: it is dropped. */
export const isDraft = (start: number, at: number) => at < start + HOUR;

/** A month begins at the same time of the same day, or of the month's last one. */
function monthsBegun(start: number, at: number): number {
  let months = 1;
  while (months < 13 && monthsLater(start, months) <= at) months++;
  return months;
}

export function monthsLater(start: number, months: number): number {
  const date = new Date(start * 1_000);
  const day = date.getUTCDate();
  date.setUTCDate(1);
  date.setUTCMonth(date.getUTCMonth() + months);
  date.setUTCDate(
    Math.min(day, new Date(Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 0)).getUTCDate()),
  );
  return date.getTime() / 1_000;
}

const sum = (amounts: number[]) => amounts.reduce((total, amount) => total + amount, 0);
