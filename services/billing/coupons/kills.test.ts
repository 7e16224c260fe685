import { afterAll, beforeAll, expect, test } from "vitest";
import { AuditRecordedSchema } from "../../../proto/gen/berth/identity/v1/events_pb.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { subscribe } from "../subscription/testing.ts";
import { startBilling, type TestBilling } from "../testing.ts";
import { atCommit, killDuring, serveAlone } from "../testing-kills.ts";
import { makePromo } from "./testing.ts";

let billing: TestBilling;
let service: Awaited<ReturnType<typeof serveAlone>>;
let accountId: string;

beforeAll(async () => {
  billing = await startBilling();
  accountId = billing.account(1);
  await subscribe(billing, accountId, {});
  await makePromo(billing.stripe.stripe, "KILLED");
  service = await serveAlone(billing);
});
afterAll(() => billing?.stop());

const owner = () => billing.as(accountId, service.port);
const codeShown = async () => (await owner().getSubscription({ accountId })).coupon?.code;

/** Returns what the audit log says of promo codes, once it has so many records. */
const logged = (count: number) =>
  eventually(`${count} records are sent`, async () => {
    const records = await billing.published(AuditRecordedSchema, accountId);
    const found = records.map(({ action }) => action).filter((action) => action.startsWith("coupon."));
    return found.length >= count && found;
  });

test("killed when the provider has the discount, or has ended it: who asked is in the audit log, once", async () => {
  await killDuring(billing, service, atCommit("update", "subscriptions", "new.coupon is not null"), () =>
    owner().redeemCoupon({ accountId, code: "KILLED" }),
  );
  await eventually("the discount is recorded", async () => (await codeShown()) === "KILLED");
  await owner().redeemCoupon({ accountId, code: "KILLED" });
  expect(await logged(1)).toEqual(["coupon.redeem"]);

  await killDuring(billing, service, atCommit("update", "subscriptions", "new.coupon is null"), () =>
    owner().removeCoupon({ accountId }),
  );
  await eventually("its end is recorded", async () => (await codeShown()) === undefined);
  await owner().removeCoupon({ accountId });
  expect(await logged(2)).toEqual(["coupon.redeem", "coupon.remove"]);
});
