import type Stripe from "stripe";
import { expect, test } from "vitest";
import { restOf } from "./term.ts";

const at = (text: string) => Date.parse(`${text}T12:00:00Z`) / 1_000;
const code = (coupon: Partial<Stripe.Coupon>) => ({ coupon: coupon as Stripe.Coupon });
const THREE = code({ duration: "repeating", duration_in_months: 3 });

/** What is left on `now` of three months that began on `startedAt`, where payments are due from `next` on. */
const left = (startedAt: string, now: string, next: string, months = 1, anchor = next) =>
  restOf(THREE, { startedAt: at(startedAt), used: true }, at(now), {
    ...{ anchor: at(anchor), next: at(next) },
    months,
  });

test.each([
  ["all payments of the term are to come", "2027-01-10", "2027-01-11", "2027-02-01", 3],
  ["one has passed", "2027-01-10", "2027-02-15", "2027-03-01", 2],
  ["one is to come, with more than a month left", "2027-01-10", "2027-03-05", "2027-04-01", 1],
  ["none is to come, though some days are left", "2027-01-10", "2027-04-02", "2027-05-01", undefined],
  ["the term is over", "2027-01-10", "2027-09-01", "2027-10-01", undefined],
  ["a checkout, which is paid now", "2027-01-10", "2027-03-20", "2027-03-20", 1],
  ["a checkout at the end of the term", "2027-01-10", "2027-04-10", "2027-04-10", undefined],
  ["the payment is due in exactly a month", "2027-01-31", "2027-01-31", "2027-02-28", 3],
])("months of a code that are left: %s", (_, startedAt, now, next, months) => {
  expect(left(startedAt, now, next)).toBe(months);
});

test("of a yearly plan, only a payment within the term counts", () => {
  expect(left("2027-01-10", "2027-02-05", "2027-03-01", 12)).toBe(1);
  expect(left("2027-01-10", "2027-02-05", "2027-06-01", 12)).toBeUndefined();
});

test("a payment on the last day of a short month is followed by one on the day on which the plan was bought", () => {
  expect(left("2027-01-31", "2027-02-10", "2027-02-28", 1, "2027-01-31")).toBe(2);
  expect(left("2027-01-31", "2027-04-01", "2027-04-30", 1, "2027-01-31")).toBeUndefined();
});

test("a code for one time is left until an invoice was reduced, a code for ever always", () => {
  const payments = { anchor: at("2027-02-01"), next: at("2027-02-01"), months: 1 };
  const rest = (duration: "once" | "forever", used: boolean) =>
    restOf(code({ duration }), { startedAt: at("2026-01-01"), used }, at("2027-01-10"), payments);
  expect([rest("once", false), rest("once", true)]).toEqual(["once", undefined]);
  expect([rest("forever", false), rest("forever", true)]).toEqual(["forever", "forever"]);
});
