import { beforeAll, expect, test } from "vitest";
import type { Runtime, RuntimeStatus } from "../../../../services/deployer/runtime/port.ts";
import { namedApp } from "./apps.ts";
import { isRunning, type RuntimeTools, statusOf } from "./harness.ts";

/** How every runtime changes the replicas and the size of a release. */
export function scalingContract(tools: RuntimeTools): void {
  const { release, get, soon, answersWith, running } = tools;
  let runtime: Runtime;
  beforeAll(() => {
    runtime = tools.runtime();
  });

  test("more replicas, fewer, and none, all under the same address", async () => {
    const one = release(namedApp);
    const answerers = async (status: RuntimeStatus) => {
      const answers = await Promise.all(Array.from({ length: 12 }, () => get(status)));
      return new Set(answers.map((answer) => answer.body)).size;
    };
    await runtime.apply({ ...one, replicas: 3 });
    const status = await running(one);
    await soon(async () => expect(await answerers(status)).toBe(3));
    await runtime.apply({ ...one, replicas: 1 });
    await running(one);
    await soon(async () => expect(await answerers(status)).toBe(1));
    await runtime.apply({ ...one, replicas: 0 });
    await statusOf(runtime, one.serviceId, (now) => now.state === "stopped");
    await answersWith(status, 503);
  });

  test("scaling keeps the replicas that stay, counts what runs, and leaves another version alone", async () => {
    const one = release(namedApp);
    await runtime.apply(one);
    const status = await running(one);
    const first = (await get(status)).body;
    await runtime.scale(one.serviceId, 1, { replicas: 3, size: "nano" });
    const three = await statusOf(runtime, one.serviceId, (now) => now.usage?.at(-1)?.replicas === 3);
    expect(three.scale).toEqual({ replicas: 3, size: "nano" });
    await soon(async () => {
      const answers = await Promise.all(Array.from({ length: 12 }, () => get(status)));
      const names = new Set(answers.map((answer) => answer.body));
      expect([names.size, names.has(first)]).toEqual([3, true]);
    });
    // Another size may need other processes: not everything can be resized while it runs.
    await runtime.scale(one.serviceId, 1, { replicas: 3, size: "small" });
    const resized = (now: RuntimeStatus) => isRunning(now) && now.usage?.at(-1)?.size === "small";
    const more = await statusOf(runtime, one.serviceId, resized);
    expect(more.usage?.at(-1)?.replicas).toBe(3);
    expect(more.scale).toEqual({ replicas: 3, size: "small" });
    await runtime.scale(one.serviceId, 1, { replicas: 3, size: "small" });
    await runtime.scale(one.serviceId, 2, { replicas: 1, size: "nano" });
    await runtime.scale("svc_unknown", 1, { replicas: 1, size: "nano" });
    expect(await runtime.status(one.serviceId)).toMatchObject({ version: 1, usage: more.usage });
    await runtime.scale(one.serviceId, 1, { replicas: 0, size: "small" });
    const none = await statusOf(runtime, one.serviceId, (now) => now.state === "stopped");
    expect(none.usage?.at(-1)?.replicas).toBe(0);
    const times = none.usage!.map((change) => change.at);
    expect(times).toEqual([...new Set(times)].sort((a, b) => a - b));
    await runtime.scale(one.serviceId, 1, { replicas: 1, size: "small" });
    await running(one);
    await answersWith(status, 200);
  });
}
