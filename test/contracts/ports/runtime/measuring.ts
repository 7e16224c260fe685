import { beforeAll, expect, test } from "vitest";
import type { Runtime } from "../../../../services/deployer/runtime/port.ts";
import { namedApp } from "./apps.ts";
import type { RuntimeTools } from "./harness.ts";

/** How every runtime measures what services use. */
export function measuringContract(tools: RuntimeTools): void {
  const { release, get, soon, running } = tools;
  let runtime: Runtime;
  beforeAll(() => {
    runtime = tools.runtime();
  });
  const measured = async (serviceId: string) =>
    (await runtime.measure!()).find((one) => one.serviceId === serviceId);

  test("what runs is measured: replicas, and CPU, memory and requests unless it says why not", async () => {
    const one = release(namedApp);
    await runtime.apply({ ...one, replicas: 2 });
    const status = await running(one);
    await get(status);
    const { cpu, memory, requests } = runtime.unmeasured ?? {};
    await soon(async () => {
      const found = await measured(one.serviceId);
      expect(found?.replicas).toBe(2);
      const of = (member: "cpuMs" | "statuses") => found!.counters.filter((counter) => counter[member]);
      if (!cpu) expect(of("cpuMs").length >= 2 || found!.cores! >= 0).toBe(true);
      if (!memory) expect(found!.memory).toBeGreaterThan(1_000_000);
      if (!requests) expect(of("statuses")[0]?.statuses?.[0]).toBeGreaterThan(0);
    });
    for (const why of Object.values(runtime.unmeasured ?? {})) expect(why).toMatch(/^[A-Z].*\.$/);
  });

  test("what is counted only grows, with one source for each replica, and a removed service is measured no longer", async () => {
    const one = release(namedApp);
    await runtime.apply(one);
    const status = await running(one);
    const before = await measured(one.serviceId);
    await get(status);
    await soon(async () => expect((await measured(one.serviceId))?.replicas).toBe(1));
    const after = await measured(one.serviceId);
    for (const { source, cpuMs = 0, restarts = 0 } of before!.counters) {
      const now = after!.counters.find((counter) => counter.source === source)!;
      expect([now.cpuMs ?? 0, now.restarts ?? 0].map(Number)).toSatisfy(
        ([cpu, count]: number[]) => cpu! >= cpuMs && count! >= restarts,
      );
    }
    const sources = after!.counters.map(({ source }) => source);
    expect(new Set(sources).size).toBe(sources.length);
    await runtime.remove(one.serviceId);
    expect(await measured(one.serviceId)).toBeUndefined();
  });
}
