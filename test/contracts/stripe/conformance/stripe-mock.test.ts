import { Stripe } from "stripe";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { findStripeMock, startStripeMock } from "../../../support/servers/stripe-mock.ts";
import { sdkCalls } from "./sdk-calls.ts";

/** What its OpenAPI, of 2026-08-26.dahlia, cannot know of the version in use; remove what a newer one knows. */
const tooOld: Record<string, string> = {
  // Its list of versions ends with its own.
  "POST /v1/webhook_endpoints":
    "object property 'api_version' validation failed: value is not in enumeration",
};

const program = await findStripeMock();

describe.skipIf(program === undefined)("Stripe's own mock of its API", () => {
  let stop: () => Promise<void>;
  let stripe: Stripe;
  beforeAll(async () => {
    const { host, port, stop: stopMock } = await startStripeMock(program!);
    stop = stopMock;
    stripe = new Stripe("sk_test_123", { host, port, protocol: "http", maxNetworkRetries: 0 });
  });
  afterAll(() => stop?.());

  test.each(sdkCalls.filter(([request]) => !(request in tooOld)))("accepts %s", async (_, calls) => {
    for (const call of calls) await call(stripe);
  });

  test.each(sdkCalls.filter(([request]) => request in tooOld))(
    "is too old for %s",
    async (request, calls) => {
      for (const call of calls) await expect(call(stripe)).rejects.toThrow(tooOld[request]);
    },
  );

  test.each([
    { coupon: "cp_1" },
    { items: "all" },
    { items: [{ price: "price_1", quantity: "many" }] },
    { collection_method: "by_hand" },
  ])("refuses a subscription with %j", async (params) => {
    await expect(stripe.subscriptions.create(params as object)).rejects.toMatchObject({ statusCode: 400 });
  });
});
