import { afterEach, expect, test } from "vitest";
import { isRunning, releaseOf, statusOf } from "../../../test/contracts/ports/runtime/harness.ts";
import { artifact, cleanUp, cleanups, forkRuntime, makeRoot } from "../runtime/local/testing.ts";
import { createWebService, startDeployer } from "../testing/testing.ts";
import { sample } from "./sample.ts";
import { busyApp } from "./testing.ts";

afterEach(cleanUp);

test("what a replica used before and after its deployer was killed counts once", async () => {
  const berth = await startDeployer();
  cleanups.push(berth.stop);
  const { id: serviceId } = await createWebService(berth.port);
  const places = makeRoot();
  const sampleBy = ({ call }: Awaited<ReturnType<typeof forkRuntime>>) =>
    sample({ pool: berth.pool, runtime: { measure: () => call("measure") }, log: console });
  const kept = async () => {
    const values = [serviceId];
    const minutes =
      "select sum(cpu_ms) as cpu, sum(statuses[1]) as requests from service_metrics where service_id = $1";
    const { rows } = await berth.pool.query(minutes, values);
    const counters = "select counters from metric_counters where service_id = $1";
    const counted = (await berth.pool.query(counters, values)).rows[0].counters as { cpuMs?: number }[];
    return { ...rows[0], counted: counted.reduce((sum, { cpuMs = 0 }) => sum + cpuMs, 0) };
  };

  const first = await forkRuntime(places);
  await first.call("apply", releaseOf(artifact, busyApp["server.js"], { serviceId }));
  const { url = "" } = await statusOf(first.runtime, serviceId, isRunning);
  await first.fetch(url, "/");
  await sampleBy(first);
  for (let n = 0; n < 5; n++) await first.fetch(url, "/");
  await sampleBy(first);
  const before = await kept();
  expect(before).toMatchObject({ cpu: before.counted, requests: 6 });
  await first.kill();

  const second = await forkRuntime(places);
  const again = await statusOf(second.runtime, serviceId, isRunning);
  for (let n = 0; n < 5; n++) await second.fetch(again.url ?? "", "/");
  await sampleBy(second);
  await sampleBy(second);
  const after = await kept();
  expect(after).toMatchObject({ cpu: after.counted, requests: 11 });
  expect(after.cpu).toBeGreaterThan(before.cpu);
  await second.stop();
});
