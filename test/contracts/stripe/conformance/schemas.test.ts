import { readFileSync } from "node:fs";
import { Stripe } from "stripe";
import { expect, test } from "vitest";
import { allRoutes } from "../../../../deploy/stripe-simulator/start.ts";
import { createClock } from "../../../../deploy/stripe-simulator/state/clock.ts";
import { openState } from "../../../../deploy/stripe-simulator/state/state.ts";
import { readSchemas, schemasFile } from "./check-request.ts";
import { generateSchemas, toText } from "./generate.ts";

const AGAIN = "schemas.json is out of date: run `npm run generate:stripe` and read what changed";

test("the schemas are those of the installed version of stripe", () => {
  expect(readSchemas().stripe, AGAIN).toBe(Stripe.PACKAGE_VERSION);
});

test("the schemas are what its types and request-types.ts say", () => {
  const differ = toText(generateSchemas()) !== readFileSync(schemasFile, "utf8");
  expect(differ, AGAIN).toBe(false);
});

test("the schemas are those of every request that the simulator answers", () => {
  const { state } = openState(undefined);
  const routes = allRoutes({ state, clock: createClock({ seconds: 0 }), url: "", emit: () => {} });
  const answered = routes.map(({ method, path }) => `${method} ${path.replaceAll(/:\w+/g, "{id}")}`);
  expect(answered.sort()).toEqual(Object.keys(readSchemas().requests).sort());
});
