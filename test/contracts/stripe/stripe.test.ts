import { afterAll, beforeAll, describe } from "vitest";
import { describeCoupons } from "./coupons.ts";
import { openScenario, type Scenario, type Target } from "./harness.ts";
import { describeMetering } from "./metering.ts";
import { describePlanChanges } from "./plan-changes.ts";
import { describeRefunds } from "./refunds.ts";
import { findSandbox } from "./sandbox.ts";
import { startSimulator } from "./simulator.ts";
import { describeSubscriptions } from "./subscriptions.ts";

// The simulator behaves as Stripe does in what Berth relies on: both pass the same tests.

const sandbox = findSandbox();
const targets: [string, (() => Promise<Target>) | undefined][] = [
  ["the simulator of Stripe", startSimulator],
  ["a sandbox of Stripe", sandbox && (async () => sandbox)],
];

for (const [name, open] of targets)
  describe.skipIf(open === undefined)(name, () => {
    let scenario: Scenario;
    beforeAll(async () => {
      scenario = await openScenario(await open!());
    });
    afterAll(() => scenario?.stop());

    describeSubscriptions(() => scenario);
    describePlanChanges(() => scenario);
    describeCoupons(() => scenario);
    describeMetering(() => scenario);
    describeRefunds(() => scenario);
  });
