import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterEach, beforeEach, expect, test } from "vitest";
import { type TestStripe, testStripe } from "../../../test/support/servers/stripe.ts";
import { createLog } from "../../kit/log.ts";
import { refused } from "../../kit/testing/refusal.ts";
import { nodeEnv } from "../../kit/testing/service-process.ts";
import { eventually } from "../../kit/testing/testing.ts";
import { createProvider } from "../stripe/provider.ts";
import { findPortal } from "./portal-configuration.ts";
import { seed } from "./seed.ts";
import { startSeeding } from "./seeding.ts";

const PRICES = 9;
const COMMAND = join(import.meta.dirname, "../seed-main.ts");

let server: TestStripe;
let logLines: string[];
beforeEach(async () => {
  logLines = [];
  server = await testStripe();
});
afterEach(() => server?.stop());

const log = createLog("billing", "debug", (line) => void logLines.push(line));
const providerOf = (stripeKey = server.key) => createProvider({ stripeKey, stripeUrl: server.url }, log);

/** Returns all that is sold, as the provider has it. */
async function sold() {
  const { stripe } = server;
  const [products, prices, meters, portals] = await Promise.all([
    stripe.products.list({ limit: 100 }),
    stripe.prices.list({ limit: 100 }),
    stripe.billing.meters.list({ limit: 100 }),
    stripe.billingPortal.configurations.list({ limit: 100 }),
  ]);
  return { products: products.data, prices: prices.data, meters: meters.data, portals: portals.data };
}

/** Runs the command as an operator does. */
async function command(args: string[], env: Record<string, string> = {}) {
  const all = { STRIPE_SECRET_KEY: server.key, STRIPE_API_URL: server.url, ...env };
  const options = { env: { ...nodeEnv, ...all } };
  return promisify(execFile)(process.execPath, [COMMAND, ...args], options).then(
    ({ stdout, stderr }) => ({ code: 0, stdout, stderr }),
    (error) => ({ code: error.code as number, stdout: String(error.stdout), stderr: String(error.stderr) }),
  );
}

test("what is sold is made once, with the prices of the list", async () => {
  const made = await seed(providerOf());
  expect(made).toHaveLength(5 + PRICES + 2);
  const before = await sold();
  expect(before.prices.map(({ lookup_key, unit_amount }) => [lookup_key, unit_amount]).sort()).toEqual([
    ["compute_monthly_2026-11", null],
    ["plan_pro_annual_2026-11", 20_000],
    ["plan_pro_monthly_2026-11", 2_000],
    ["plan_team_annual_2026-11", 100_000],
    ["plan_team_monthly_2026-11", 10_000],
    ["seat_pro_annual_2026-11", 10_000],
    ["seat_pro_monthly_2026-11", 1_000],
    ["seat_team_annual_2026-11", 10_000],
    ["seat_team_monthly_2026-11", 1_000],
  ]);
  expect(await seed(providerOf())).toEqual([]);
  expect(await sold()).toEqual(before);
});

test("the portal lets nobody cancel, pause or change a subscription past Berth", async () => {
  await seed(providerOf());
  const { portals } = await sold();
  expect(portals).toHaveLength(1);
  expect(portals[0]).toMatchObject({
    features: {
      invoice_history: { enabled: true },
      payment_method_update: { enabled: true },
      subscription_cancel: { enabled: false },
      subscription_update: { enabled: false },
      subscription_pause: { enabled: false },
    },
  });
});

test("several at once make each thing once", async () => {
  const made = await Promise.all([1, 2, 3].map(() => seed(providerOf())));
  const names = made.flat().filter((name) => !name.includes("portal"));
  expect(new Set(names).size).toBe(names.length);
  const { products, prices, meters, portals } = await sold();
  expect([products.length, prices.length, meters.length, portals.length]).toEqual([5, PRICES, 1, 1]);
});

test("one that was ended within is carried on, wherever it stopped", async () => {
  for (let requests = 1; ; requests++) {
    // It is stopped at its so manyth request: the request is done, and nothing after it.
    let left = requests;
    const provider = providerOf();
    const stopped = provider.ask((stripe) => {
      stripe.on("request", () => {
        if (left-- === 0) server.faults.add({ kind: "refuse", times: 1_000 });
      });
      return seed({ ...provider, ask: (work) => work(stripe) });
    });
    const ended = await stopped.then(
      () => true,
      () => false,
    );
    server.faults.clear();
    if (ended) break;
    expect(requests).toBeLessThan(200);
  }
  const { products, prices, meters, portals } = await sold();
  expect([products.length, prices.length, meters.length, portals.length]).toEqual([5, PRICES, 1, 1]);
});

test("an answer that is lost, and a 5xx, do not stick: the next try makes what is missing", async () => {
  server.faults.add({ kind: "error", method: "POST", path: "/v1/prices", times: 2 });
  expect(await refused(seed(providerOf()))).toBe("502 payment_provider_unavailable");
  server.faults.add({ kind: "lose_answer", method: "POST", path: "/v1/products", times: 2 });
  await seed(providerOf()).catch(() => {});
  await seed(providerOf());
  const { products, prices } = await sold();
  expect([products.length, prices.length]).toEqual([5, PRICES]);
});

test("prices of a former list stay as they are", async () => {
  const { stripe } = server;
  const product = await stripe.products.create({ id: "berth_plan_pro", name: "Berth pro" });
  const former = await stripe.prices.create({
    product: product.id,
    currency: "usd",
    unit_amount: 1_500,
    recurring: { interval: "month" },
    lookup_key: "plan_pro_monthly_2025-01",
  });
  await seed(providerOf());
  expect(await stripe.prices.retrieve(former.id)).toMatchObject({
    active: true,
    unit_amount: 1_500,
    lookup_key: "plan_pro_monthly_2025-01",
  });
  const { products, prices } = await sold();
  expect([products.length, prices.length]).toEqual([5, PRICES + 1]);
});

test("of two configurations of the portal the older counts", async () => {
  await seed(providerOf());
  const first = await findPortal(server.stripe, "");
  server.clock.advance(10);
  await server.stripe.billingPortal.configurations.create({
    features: { invoice_history: { enabled: true } },
    metadata: { berth: "berth" },
  });
  expect(await findPortal(server.stripe, "")).toBe(first);
});

test("billing makes what is missing by itself", async () => {
  const seeding = startSeeding({ provider: providerOf(), log });
  await eventually("what is sold is there", async () => (await sold()).portals.length === 1);
  await seeding.stop();
  expect(logLines.join("\n")).not.toContain(server.key);
});

test("a key that may not do it is told once, with the command to use", async () => {
  const seeding = startSeeding({ provider: providerOf("rk_test_*"), log });
  await eventually("it is told", async () => logLines.some((line) => line.includes("npm run stripe:seed")));
  await seeding.stop();
  expect(logLines).toHaveLength(1);
});

test("the command prints what it made, and with an origin the signing secret, once", async () => {
  const origin = "https://berth.example.com";
  const first = await command(["--webhook", origin]);
  expect(first).toMatchObject({ code: 0, stderr: "" });
  expect(first.stdout).toContain("made price plan_pro_annual_2026-11\n");
  expect(first.stdout).toMatch(/^whsec_\w+$/m);
  const { data } = await server.stripe.webhookEndpoints.list();
  expect(data).toMatchObject([{ url: `${origin}/webhooks/stripe`, api_version: "2026-10-28.endive" }]);
  const again = await command(["--webhook", origin]);
  expect(again.stdout).toContain("nothing was changed");
  expect(again.stdout).not.toContain("whsec_");
  expect((await server.stripe.webhookEndpoints.list()).data).toHaveLength(1);
});

test("the command says what is wrong, without the key", async () => {
  expect(await command([], { STRIPE_SECRET_KEY: "" })).toMatchObject({
    code: 1,
    stderr: expect.stringContaining("STRIPE_SECRET_KEY is not set"),
  });
  expect((await command(["--webhook", "berth"])).stderr).toContain("must be a URL");
  expect((await command(["--bogus"])).code).toBe(1);
  const refusedKey = await command([], { STRIPE_SECRET_KEY: "rk_test_abcdefghij" });
  expect(refusedKey.code).toBe(1);
  expect(refusedKey.stderr).not.toContain("abcdefghij");
  expect((await command(["--help"])).stdout).toContain("npm run stripe:seed");
});
