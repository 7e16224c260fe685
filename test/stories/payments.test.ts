import { stat } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { eventually } from "../../services/kit/testing/testing.ts";
import { openDoor } from "../support/door.ts";
import { end, type Launched, launch } from "../support/launched.ts";

let launched: Launched | undefined;
afterAll(() => launched?.stop());

test("npm start sells plans on a simulator's page, and what was paid outlives a restart", async () => {
  launched = await launch();
  const { output } = launched;
  await eventually("the table has the simulator", async () =>
    /Payments +http:\S+ \(a simulator of Stripe: no money moves\)/.test(output()),
  );
  const home = launched.checkoutUrl!;
  expect(await (await fetch(home)).text()).toContain("WELCOME20");

  const { call, must, A, accountId } = await openDoor(launched.origin, launched.ownerToken);
  expect((await call("GET", `${A}/subscription`)).status).toBe(404);
  const { checkoutUrl } = await must<{ checkoutUrl: string }>("POST", `${A}/subscription`, { tierId: "pro" });
  expect(new URL(checkoutUrl).origin).toBe(new URL(home).origin);
  const paid = await fetch(checkoutUrl, {
    method: "POST",
    body: new URLSearchParams({ action: "pay", card_number: "4242 4242 4242 4242" }),
    redirect: "manual",
  });
  expect(paid.headers.get("location")).toBe(`${launched.origin}/billing/subscribed?account=${accountId}`);
  const subscribed = await eventually("the webhook arrived", async () => {
    const { status, body } = await call<{ id: string; status: string }>("GET", `${A}/subscription`);
    return status === 200 && body;
  });
  expect(subscribed.status).toBe("active");
  expect((await stat(join(launched.data, "stripe/stripe.json"))).mode & 0o777).toBe(0o600);

  await end(launched.child, "SIGTERM");
  launched = await launch({ dir: launched.data });
  expect(launched.checkoutUrl).toBe(home);
  expect(await (await fetch(home)).text()).toContain(subscribed.id);
});
