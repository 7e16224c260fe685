import { timestampDate } from "@bufbuild/protobuf/wkt";
import { afterAll, beforeAll, expect, test } from "vitest";
import { InvoiceMirroredSchema } from "../../../proto/gen/berth/billing/v1/events_pb.ts";
import { refused } from "../../kit/testing/refusal.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { DAY, pass, subscriber } from "../cancellation/testing.ts";
import { closePeriods, dueCents, runFor } from "../metering/testing.ts";
import { setMembers } from "../seats/testing.ts";
import { startBilling, type TestBilling } from "../testing.ts";

const CREDIT = 1_000;

let billing: TestBilling;
beforeAll(async () => {
  billing = await startBilling();
});
afterAll(() => billing?.stop());

// The provider shows ten lines with an invoice: those of members who were added are the first, those of the plan and of
// compute the last.
test("a month in which many members joined is previewed, recorded and explained with all that its invoice asks for", async () => {
  const monthly = await subscriber(billing, { cadence: "monthly", members: 3 });
  const { accountId, owner, customer } = monthly;
  const { stripe, clock } = billing.stripe;
  const { periodStart } = await owner.getComputeUsage({ accountId });
  await runFor(billing, accountId, clock.now(), 5);
  for (let seats = 1; seats <= 6; seats++) {
    clock.advance(DAY + 4_321);
    await setMembers(billing, accountId, 3 + seats);
    await eventually(`${seats} members are billed`, async () => {
      const { items } = await monthly.atStripe();
      return items.data.find(({ price }) => price.metadata.kind === "seat")?.quantity === seats;
    });
  }
  const { data: pending } = await stripe.invoiceItems.list({ customer, pending: true, limit: 100 });
  expect(pending).toHaveLength(11);
  const joined = pending.reduce((sum, { amount }) => sum + amount, 0);
  const { charges } = await monthly.preview();
  expect(charges).toMatchObject([{ amountUsd: (joined + dueCents(5) - CREDIT) / 100 }]);

  await pass(billing, monthly, "plan", 46);
  await closePeriods(billing, accountId, 1);
  expect(await refused(owner.updateSubscription({ accountId, tierId: "team" }))).toBe(
    "409 renewal_under_way",
  );
  clock.advance(15 * 60);
  const total = 2_000 + 6_000 + joined + dueCents(5) - CREDIT;
  const { lines } = await eventually("its invoice is recorded", async () => {
    const recorded = await billing.published(InvoiceMirroredSchema, accountId);
    return recorded.find(({ totalCents }) => totalCents === BigInt(total));
  });
  expect(lines.map(({ kind }) => kind)).toEqual(
    expect.arrayContaining(["seat", "plan", "compute", "credit"]),
  );
  expect(lines.map(({ kind }) => kind)).not.toContain("tax");
  const month = timestampDate(periodStart!).toISOString().slice(0, 7);
  const [period] = (await owner.getStatement({ accountId, month })).periods;
  expect(period?.invoicedUsd).toBe(dueCents(5) / 100);
});
