// Amounts of usage are whole nano-USD, billionths of a dollar. Nothing is rounded before it is shown or invoiced.

export const NANO_PER_CENT = 10_000_000n;
/** The API shows usage with four decimals. */
const NANO_PER_SHOWN = 100_000n;
const SHOWN_PER_USD = 10_000;
const NANO_PER_USD = 1e9;

/** Returns a quotient as a whole number, halves rounded to the even one. `divisor` is positive. */
export function divideHalfEven(amount: bigint, divisor: bigint): bigint {
  const floor = floorDivide(amount, divisor);
  const twice = 2n * (amount - floor * divisor);
  const up = twice > divisor || (twice === divisor && floor % 2n !== 0n);
  return up ? floor + 1n : floor;
}

/** Returns whole cents. */
export function toCents(nanoUsd: bigint): bigint {
  return divideHalfEven(nanoUsd, NANO_PER_CENT);
}

/** Returns dollars as the API shows usage, with four decimals. */
export function toUsd(nanoUsd: bigint): number {
  return Number(divideHalfEven(nanoUsd, NANO_PER_SHOWN)) / SHOWN_PER_USD;
}

/** Returns dollars without rounding, for amounts that are to be added up. */
export function toExactUsd(nanoUsd: bigint): number {
  return Number(nanoUsd) / NANO_PER_USD;
}

/** Returns each amount in whole cents so that they add up to the cents of their sum: by largest remainders. */
export function splitCents(amounts: bigint[]): bigint[] {
  const cents = amounts.map((amount) => floorDivide(amount, NANO_PER_CENT));
  const total = toCents(amounts.reduce((sum, amount) => sum + amount, 0n));
  const missing = Number(total - cents.reduce((sum, amount) => sum + amount, 0n));
  const remainder = (index: number) => amounts[index]! - cents[index]! * NANO_PER_CENT;
  const order = amounts.map((_, index) => index);
  order.sort((a, b) => Number(remainder(b) - remainder(a)));
  for (const index of order.slice(0, missing)) cents[index]! += 1n;
  return cents;
}

function floorDivide(amount: bigint, divisor: bigint): bigint {
  const quotient = amount / divisor;
  return amount < 0n && quotient * divisor !== amount ? quotient - 1n : quotient;
}
