import fc from "fast-check";
import { expect, test } from "vitest";
import { divideHalfEven, NANO_PER_CENT, splitCents, toCents, toExactUsd, toUsd } from "./nano-usd.ts";

const amount = fc.bigInt({ min: -(10n ** 16n), max: 10n ** 16n });
const sum = (amounts: bigint[]) => amounts.reduce((total, one) => total + one, 0n);

test("halves go to the even number, on both sides of zero", () => {
  const halves = [-25n, -15n, -5n, 5n, 15n, 25n, 35n];
  expect(halves.map((half) => divideHalfEven(half, 10n))).toEqual([-2n, -2n, 0n, 0n, 2n, 2n, 4n]);
  expect([14n, 16n, -14n, -16n].map((other) => divideHalfEven(other, 10n))).toEqual([1n, 2n, -1n, -2n]);
});

test("rounding is off by at most half, whatever the amount, and the same below zero", () => {
  fc.assert(
    fc.property(amount, fc.bigInt({ min: 1n, max: 10n ** 9n }), (value, divisor) => {
      const off = 2n * (value - divideHalfEven(value, divisor) * divisor);
      expect(off <= divisor && off >= -divisor).toBe(true);
      expect(divideHalfEven(-value, divisor)).toBe(-divideHalfEven(value, divisor));
    }),
  );
});

test("dollars have four decimals, cents none, and lines all nine", () => {
  expect([toUsd(123_450_000n), toUsd(123_450_001n), toUsd(10_000n)]).toEqual([0.1234, 0.1235, 0]);
  expect([toCents(5_000_000n), toCents(15_000_000n), toCents(20_000_000_000n)]).toEqual([0n, 2n, 2_000n]);
  expect([toExactUsd(2_250n), toExactUsd(5_913_000_000n)]).toEqual([0.00000225, 5.913]);
});

test("the cents of the parts add up to those of the whole, each off by less than a cent", () => {
  fc.assert(
    fc.property(fc.array(amount, { maxLength: 40 }), (amounts) => {
      const cents = splitCents(amounts);
      expect(sum(cents)).toBe(toCents(sum(amounts)));
      for (const [index, part] of cents.entries()) {
        const off = part * NANO_PER_CENT - amounts[index]!;
        expect(off < NANO_PER_CENT && off > -NANO_PER_CENT).toBe(true);
      }
    }),
  );
});

test("the cents that rounding leaves go to the largest remainders, and of equals to the first", () => {
  const third = NANO_PER_CENT / 3n;
  expect(splitCents([third, third, third + 1n])).toEqual([0n, 0n, 1n]);
  expect(splitCents([third * 2n, third * 2n, third * 2n])).toEqual([1n, 1n, 0n]);
  expect(splitCents([])).toEqual([]);
});
