import { testStripe } from "../../support/servers/stripe.ts";
import type { Target } from "./harness.ts";

/** Starts a simulator, whose one clock is that of all customers. */
export async function startSimulator(): Promise<Target> {
  const { stripe, key, url, clock, stop } = await testStripe();
  const addCustomer = async () => ({
    id: (await stripe.customers.create({ name: "berth test" })).id,
    advanceTo: async (time: number) => clock.advance(time - clock.now()),
  });
  return { stripe, key, url, addCustomer, stop };
}
