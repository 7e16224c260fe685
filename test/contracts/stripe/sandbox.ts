import { Stripe } from "stripe";
import { eventually } from "../../../services/kit/testing/testing.ts";
import type { Customer, Target } from "./harness.ts";

/** Stripe needs a while for each month that a clock is moved. */
const ADVANCE_MS = 240_000;

/**
 * Returns a sandbox of Stripe, or undefined, which is printed, where STRIPE_SANDBOX_KEY is not set. The key of a live
 * account is refused.
 */
export function findSandbox(): Target | undefined {
  const key = process.env.STRIPE_SANDBOX_KEY;
  if (!key) return void console.log("Skipped: scenarios at Stripe itself. STRIPE_SANDBOX_KEY is not set.");
  if (!/^[sr]k_test_/.test(key))
    throw new Error("STRIPE_SANDBOX_KEY must be the key of a sandbox: sk_test_ or rk_test_.");
  const stripe = new Stripe(key, { timeout: 30_000, maxNetworkRetries: 3 });
  const clocks: string[] = [];

  /** Each customer has a clock of his own, with which all that is his is removed. */
  async function addCustomer(): Promise<Customer> {
    const clock = await stripe.testHelpers.testClocks.create({ frozen_time: Math.floor(Date.now() / 1_000) });
    clocks.push(clock.id);
    const { id } = await stripe.customers.create({ name: "berth test", test_clock: clock.id });
    return { id, advanceTo: (time) => advance(clock.id, time) };
  }

  async function advance(clock: string, time: number): Promise<void> {
    await stripe.testHelpers.testClocks.advance(clock, { frozen_time: time });
    const arrived = async () => {
      const { status } = await stripe.testHelpers.testClocks.retrieve(clock);
      if (status === "internal_failure") throw new Error("Stripe could not move its test clock");
      return status === "ready";
    };
    await eventually("the clock has been moved", arrived, ADVANCE_MS);
  }

  const stop = async () => {
    for (const clock of clocks) await stripe.testHelpers.testClocks.del(clock);
  };
  return { stripe, key, addCustomer, stop };
}
