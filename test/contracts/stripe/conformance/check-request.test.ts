import { Stripe } from "stripe";
import { expect, test } from "vitest";
import { decodeForm } from "../../../../deploy/stripe-simulator/http/form.ts";
import { testStripe } from "../../../support/servers/stripe.ts";
import { requestChecker } from "./check-request.ts";
import { sdkCalls } from "./sdk-calls.ts";

const check = requestChecker();

test.each(sdkCalls)("%s is taken as the SDK sends it", async (request, calls) => {
  const seen: string[] = [];
  const fetchFn = async (url: string, { method, body }: { method: string; body: string }) => {
    const { pathname, search } = new URL(url);
    expect(check(method, pathname, decodeForm(body || search.slice(1)))).toEqual([]);
    seen.push(`${method} ${pathname.split("/").length}`);
    return Response.json({});
  };
  const httpClient = Stripe.createFetchHttpClient(fetchFn as never);
  for (const call of calls) await call(new Stripe("sk_test_1", { httpClient, telemetry: false }));
  const [method, path] = request.split(" ");
  expect(seen).toEqual(calls.map(() => `${method} ${path!.split("/").length}`));
});

test.each<[string, string, object, string[]]>([
  ["POST", "/v1/subscriptions/sub_1", { coupon: "cp_1" }, ["coupon: Stripe has no such parameter"]],
  [
    "POST",
    "/v1/checkout/sessions",
    { mode: "subscripton", subscription_data: { coupon: "cp_1" }, line_items: { 0: { quantity: "many" } } },
    [
      "line_items[0][quantity]: must be number",
      'mode: must be one of ["payment","setup","subscription"]',
      "subscription_data[coupon]: Stripe has no such parameter",
    ],
  ],
  ["POST", "/v1/prices", { product: "prod_1" }, ["currency: is required"]],
  [
    "POST",
    "/v1/prices",
    { currency: "usd", unit_amount_decimal: "1e-2" },
    ['unit_amount_decimal: must match pattern "^-?\\d+(\\.\\d+)?$"'],
  ],
  [
    "POST",
    "/v1/subscriptions/sub_1",
    { cancel_at_period_end: "yes" },
    ["cancel_at_period_end: must be boolean"],
  ],
  [
    "POST",
    "/v1/subscriptions/sub_1",
    { discounts: { 0: { code: "WELCOME" } } },
    ["discounts[0][code]: Stripe has no such parameter"],
  ],
  [
    "GET",
    "/v1/events",
    { types: "invoice.paid", created: { gte: "today" } },
    ["created[gte]: must be number", "types: must be array"],
  ],
  ["GET", "/v1/charges/ch_1", {}, ["GET /v1/charges/ch_1 is no request of request-types.ts"]],
])("%s %s with %j is refused", (method, path, params, complaints) => {
  expect(check(method, path, params as never)).toEqual(complaints);
});

test("an empty text clears what can be cleared", () => {
  expect(check("POST", "/v1/subscriptions/sub_1", { discounts: "", metadata: "" })).toEqual([]);
  expect(check("POST", "/v1/subscriptions/sub_1", { cancel_at_period_end: "" })).not.toEqual([]);
});

test("a path that is a request of its own is no id of another", () => {
  expect(check("GET", "/v1/customers/search", {})).toEqual(["query: is required"]);
  expect(check("GET", "/v1/customers/cus_1", {})).toEqual([]);
});

test("a simulator of tests refuses it, and says so again when it stops", async () => {
  const { stripe, stop } = await testStripe();
  const complaint = "nickname: Stripe has no such parameter";
  const refused = stripe.customers.create({ nickname: "ada" } as Stripe.CustomerCreateParams);
  await expect(refused).rejects.toMatchObject({ statusCode: 400, message: complaint });
  await expect(stop()).rejects.toThrow(`POST /v1/customers: ${complaint}`);
});
