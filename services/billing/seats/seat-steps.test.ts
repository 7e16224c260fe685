import fc from "fast-check";
import { expect, test } from "vitest";
import { seatSteps } from "./seat-steps.ts";

const monthly = { cadence: "monthly" as const };

test("seats up to those that are paid cost nothing, others the rest of the period", () => {
  expect(seatSteps({ current: 2, paid: 2, wanted: 2, ...monthly })).toEqual([]);
  expect(seatSteps({ current: 2, paid: 2, wanted: 0, ...monthly })).toEqual([
    { quantity: 0, proration_behavior: "none" },
  ]);
  expect(seatSteps({ current: 0, paid: 2, wanted: 3, ...monthly })).toEqual([
    { quantity: 2, proration_behavior: "none" },
    { quantity: 3, proration_behavior: "create_prorations" },
  ]);
  expect(seatSteps({ current: 2, paid: 2, wanted: 3, cadence: "annual" })).toEqual([
    { quantity: 3, proration_behavior: "always_invoice" },
  ]);
});

test("whatever happens to members within a period, as many seats are charged as there were at most", () => {
  const seat = fc.nat({ max: 9 });
  fc.assert(
    fc.property(seat, fc.array(seat, { maxLength: 20 }), (start, wishes) => {
      let [current, paid, charged] = [start, start, start];
      for (const wanted of wishes) {
        for (const { quantity, proration_behavior } of seatSteps({ current, paid, wanted, ...monthly })) {
          if (proration_behavior !== "none") charged += quantity - current;
          paid = Math.max(paid, current);
          current = quantity;
        }
        paid = Math.max(paid, current);
        expect(current).toBe(wanted);
      }
      expect(charged).toBe(Math.max(start, ...wishes));
    }),
  );
});
