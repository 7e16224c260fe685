import { expect } from "vitest";
import { holdCommits } from "../kit/testing/hold-commits.ts";
import { eventually } from "../kit/testing/testing.ts";
import type { TestBilling } from "./testing.ts";
import { webhookScene } from "./webhook/testing.ts";

type Process = Awaited<ReturnType<TestBilling["process"]>>;

/** Prepares a point at which the service is killed: `reached` resolves there, `over` clears it away. */
export type Reach = (
  billing: TestBilling,
) => Promise<{ reached: Promise<unknown>; over: () => Promise<void> }>;

/** Right before a change of a table is durable. */
export function atCommit(on: "insert" | "update", table: string, when: string): Reach {
  return async (billing) => {
    const held = await holdCommits(billing, on, table, when);
    return { reached: held.reached(), over: () => held.release("lost") };
  };
}

/** While the provider is asked, and does not answer. */
export function atRequest(method: string, path: string): Reach {
  return async ({ stripe: { faults } }) => {
    faults.add({ kind: "timeout", method, path });
    const reached = eventually("the provider is asked", async () => faults.pending().length === 0);
    return { reached, over: async () => faults.clear() };
  };
}

/** Has a process of its own serve billing from now on, once all that the provider reported before is processed. */
export async function serveAlone(billing: TestBilling): Promise<Process> {
  await billing.stopOwn();
  const service = await billing.process();
  // A customer whom a process was reading when it was killed is read again only when its lease is over.
  await billing.stripe.webhooks.flush();
  await webhookScene(billing).settled();
  return service;
}

/** Sends a request to the service's process, kills that at a point, and starts it again. */
export async function killDuring(
  billing: TestBilling,
  service: Process,
  reach: Reach,
  request: () => Promise<unknown>,
): Promise<void> {
  // The provider's reports come when the service is back.
  billing.deliverTo(undefined);
  const { reached, over } = await reach(billing);
  const failed = request().then(
    () => "answered",
    () => "failed",
  );
  await reached;
  await service.end("SIGKILL");
  expect(await failed).toBe("failed");
  await over();
  await service.run();
  billing.deliverTo(service.port);
  await billing.stripe.webhooks.flush();
}
