import { beforeAll, expect, test } from "vitest";
import type { Runtime } from "../../../../services/deployer/runtime/port.ts";
import { answeringApp, crashingApp } from "./apps.ts";
import { isRunning, type RuntimeTools, statusOf } from "./harness.ts";

/** What every runtime does when a release ends by itself. */
export function crashContract(tools: RuntimeTools): void {
  const { release, get, soon, answersWith, running, stderr } = tools;
  let runtime: Runtime;
  beforeAll(() => {
    runtime = tools.runtime();
  });

  test("a release that ends again and again is crashed, with its last lines", async () => {
    const one = release(crashingApp);
    await runtime.apply(one);
    const status = await statusOf(runtime, one.serviceId, (now) => now.state === "crashed");
    expect(status.message).toMatch(/exit code 7[\s\S]*cannot find my settings/);
    expect(status.serving).toBeUndefined();
    await answersWith(status, 503);
  });

  test("values of sensitive variables are not quoted in a status", async () => {
    const one = release(`console.log("using", process.env.KEY); process.exit(1)`, {
      env: { KEY: "k-4711-secret" },
      sensitive: ["KEY"],
    });
    await runtime.apply(one);
    const status = await statusOf(runtime, one.serviceId, (now) => now.state === "crashed");
    expect(status.message).toContain("using ***");
    expect(JSON.stringify(status)).not.toContain("4711");
  });

  test("a service that crashed is started again, and what it said before is still in its log", async () => {
    const one = release(answeringApp, { env: { ANSWER: "back" } });
    await runtime.apply(one);
    const before = await running(one);
    await get(before, "/crash");
    const after = await statusOf(runtime, one.serviceId, (now) => isRunning(now) && now.restarts === 1);
    await soon(async () => expect((await get(after)).body).toBe("back"));
    expect(after.healthySince).toBe(before.healthySince);
    const { lines } = await runtime.logs({
      serviceId: one.serviceId,
      environmentId: one.environmentId,
      limit: 100,
    });
    expect(lines.map((line) => [line.stream, line.message])).toEqual([
      ["stdout", "listening as back"],
      [stderr(), "going down"],
      ["stdout", "listening as back"],
    ]);
  });
}
