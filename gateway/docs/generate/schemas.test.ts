import { expect, test } from "vitest";
import { PendingCouponSchema } from "../../../proto/gen/berth/billing/v1/billing_pb.ts";
import { schemaCollector } from "./schemas.ts";

test("a member that is null or a message refers to that message, and is always there", () => {
  const schemas = schemaCollector(new Map());
  schemas.reference(PendingCouponSchema);
  expect(schemas.all()).toMatchObject({
    PendingCouponDto: {
      properties: { pending: { anyOf: [{ $ref: "#/components/schemas/CouponDto" }, { type: "null" }] } },
      required: ["pending"],
    },
    CouponDto: { properties: { code: { type: "string" } } },
  });
});
