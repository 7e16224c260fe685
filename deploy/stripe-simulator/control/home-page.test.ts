import { afterEach, expect, test } from "vitest";
import { openSession, openShop, type Shop, subscribe } from "../testing.ts";

let shop: Shop | undefined;
afterEach(() => shop?.stop());

test("the first page says what is open and sold, that no money moves, and moves the clock", async () => {
  shop = await openShop();
  const page = async () => (await fetch(shop!.url)).text();
  expect(await page()).toContain("This is a simulator: no money moves");
  const { id } = await openSession(shop, { price: shop.prices.monthly.id });
  expect(await page()).toContain(`<a href="/c/${id}">ada@example.com</a>`);
  const { id: subscription } = await subscribe(shop, shop.prices.monthly.id);
  expect(await page()).toContain(`ada@example.com: Pro, active <small>${subscription}</small>`);
  const before = shop.clock.now();
  const month = { method: "POST", body: new URLSearchParams({ seconds: String(31 * 24 * 3_600) }) };
  expect((await fetch(`${shop.url}/`, month)).status).toBe(200);
  expect(shop.clock.now() - before).toBeGreaterThanOrEqual(31 * 24 * 3_600);
  expect(await page()).toContain("$20.00, paid");
});

test("the clock takes no other steps, and names cannot be markup", async () => {
  shop = await openShop();
  await shop.stripe.customers.update(shop.customer.id, { email: "<b>@example.com" });
  await openSession(shop, { price: shop.prices.monthly.id });
  const before = shop.clock.now();
  const answer = await fetch(`${shop.url}/`, {
    method: "POST",
    body: new URLSearchParams({ seconds: "99999999999" }),
  });
  expect(shop.clock.now() - before).toBeLessThan(3_600);
  expect(await answer.text()).not.toContain("<b>@");
});
