import type { AddressInfo } from "node:net";
import { Gauge, register } from "prom-client";
import { expect, test } from "vitest";
import { startMetrics } from "./metrics-port.ts";

test("metrics that cannot be collected are a 500, and do not end the process", async () => {
  const collect = () => {
    throw new Error("not collected");
  };
  new Gauge({ name: "broken", help: "A gauge that cannot be collected", collect });
  const server = (await startMetrics({ host: "127.0.0.1", metricsPort: 0 }))!;
  const get = () => fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}/metrics`);
  expect((await get()).status).toBe(500);
  register.removeSingleMetric("broken");
  expect((await get()).status).toBe(200);
  server.close();
});
