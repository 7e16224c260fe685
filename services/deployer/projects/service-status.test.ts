import { expect, test } from "vitest";
import { type StatusFacts, serviceStatus } from "./service-status.ts";

const status = (facts: Partial<StatusFacts>) => serviceStatus({ staged: false, deleting: false, ...facts });

test("a service is pending until it is deployed, and deploying while a deployment is under way", () => {
  expect(status({})).toEqual({ status: "pending" });
  expect(status({ latestStatus: "building" })).toEqual({ status: "deploying" });
  expect(status({ latestStatus: "queued", appliedVersion: 1, runtimeState: "running" }).status).toBe(
    "deploying",
  );
});

test("a failed first deployment makes it failed, and says why", () => {
  expect(status({ latestStatus: "failed", latestError: "npm ci failed." })).toEqual({
    status: "failed",
    statusMessage: "npm ci failed.",
  });
});

test("a failed later deployment leaves the status of what runs", () => {
  const facts = { latestStatus: "failed", latestError: "no", appliedVersion: 1, runtimeState: "running" };
  expect(status(facts)).toEqual({ status: "running" });
});

test("the status of the applied release is what the runtime reports, with its reason", () => {
  const applied = { latestStatus: "applied", appliedVersion: 1 };
  expect(status(applied).status).toBe("deploying");
  expect(status({ ...applied, runtimeState: "starting" }).status).toBe("deploying");
  expect(status({ ...applied, runtimeState: "stopped" }).status).toBe("stopped");
  const crashed = { ...applied, runtimeState: "crashed", runtimeMessage: "It exited with code 1." };
  expect(status(crashed)).toEqual({ status: "crashed", statusMessage: "It exited with code 1." });
});

test("an addon is running once it is ready; staged and deleting go before everything", () => {
  expect(status({ addonState: "provisioning" }).status).toBe("deploying");
  expect(status({ addonState: "ready" }).status).toBe("running");
  expect(status({ addonState: "failed", addonMessage: "no redis" }).statusMessage).toBe("no redis");
  const exited = status({ addonState: "ready", runtimeState: "crashed" });
  expect([exited.status, exited.statusMessage]).toEqual([
    "crashed",
    expect.stringMatching(/being restarted/),
  ]);
  expect(status({ staged: true, addonState: "ready" }).status).toBe("staged");
  expect(status({ deleting: true, staged: true }).status).toBe("deleting");
});
