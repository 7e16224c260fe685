import { beforeAll, expect, test, vi } from "vitest";
import type { Runtime } from "../../../../services/deployer/runtime/port.ts";
import { answeringApp, workingApp } from "./apps.ts";
import type { RuntimeTools } from "./harness.ts";

/** What every runtime does with one release. */
export function applyContract(tools: RuntimeTools): void {
  const { release, get, answersWith, running } = tools;
  let runtime: Runtime;
  beforeAll(() => {
    runtime = tools.runtime();
  });

  test("a release answers at its URL with the variables it was given", async () => {
    const one = release(answeringApp, { env: { ANSWER: "hello" } });
    await runtime.apply(one);
    const status = await running(one);
    expect(await get(status)).toEqual({ status: 200, body: "hello" });
    expect(status).toMatchObject({ version: 1, revision: 1, restarts: 0 });
    expect(status.serving).toEqual({ version: 1, revision: 1 });
    expect(Date.parse(status.healthySince!)).toBeLessThanOrEqual(Date.now());
  });

  test("applying the same release twice starts it once", async () => {
    const one = release(answeringApp);
    await Promise.all([runtime.apply(one), runtime.apply({ ...one, env: { ...one.env } })]);
    const first = await running(one);
    await runtime.apply(one);
    expect(await runtime.status(one.serviceId)).toEqual(first);
    // It answers before its line has reached the log.
    await vi.waitFor(async () => {
      const { lines } = await runtime.logs({
        serviceId: one.serviceId,
        environmentId: one.environmentId,
        limit: 10,
      });
      expect(lines.filter((line) => line.message.startsWith("listening"))).toHaveLength(1);
    }, 10_000);
  });

  test("a worker is running without a port, and has no URL", async () => {
    const one = release(workingApp, { type: "worker", minReadySeconds: 1 });
    await runtime.apply(one);
    const status = await running(one);
    expect(status.url).toBeUndefined();
  });

  test("a health check path decides whether a release is healthy", async () => {
    const picky = `let checks = 0;
      require("node:http").createServer((req, res) => {
        if (req.url === "/healthz") res.statusCode = ++checks > 2 ? 200 : 500;
        res.end(String(checks));
      }).listen(process.env.PORT);`;
    const one = release(picky, { healthCheckPath: "/healthz" });
    await runtime.apply(one);
    const { body } = await get(await running(one));
    expect(Number(body), "it has been asked until it answered with 200").toBeGreaterThan(2);
  });

  test("an older version than the applied one is refused, whenever it arrives", async () => {
    const one = release(answeringApp, { version: 5 });
    await runtime.apply(one);
    const late = runtime.apply({ ...one, version: 4 });
    await expect(late).rejects.toMatchObject({ stage: "apply", code: "release_superseded" });
    expect((await runtime.status(one.serviceId))?.version).toBe(5);
  });

  test("removing a service ends it and forgets its log; removing what is not there is fine", async () => {
    const one = release(answeringApp);
    await runtime.remove(one.serviceId);
    await runtime.apply(one);
    const status = await running(one);
    await runtime.remove(one.serviceId);
    await runtime.remove(one.serviceId);
    expect(await runtime.status(one.serviceId)).toBeUndefined();
    expect((await runtime.list()).map((found) => found.serviceId)).not.toContain(one.serviceId);
    expect(
      await runtime.logs({ serviceId: one.serviceId, environmentId: one.environmentId, limit: 10 }),
    ).toEqual({ lines: [] });
    await answersWith(status, 404);
    await runtime.apply(one);
    await running(one);
  });
}
