import { beforeAll, expect, test } from "vitest";
import type { Runtime, RuntimeStatus } from "../../../../services/deployer/runtime/port.ts";
import { answeringApp } from "./apps.ts";
import type { RuntimeTools } from "./harness.ts";

/** How every runtime serves further host names of a service. */
export function hostContract(tools: RuntimeTools): void {
  const { release, get, soon, running } = tools;
  let runtime: Runtime;
  beforeAll(() => {
    runtime = tools.runtime();
  });

  test("a service answers at further host names, through later releases, until it is told not to", async () => {
    const one = release(answeringApp);
    const host = `shop.${one.names.service}.example.com`;
    expect(await runtime.setHosts(one.serviceId, [{ host }])).toBeUndefined();
    await runtime.apply(one);
    const status = await running(one);
    const url = new URL(status.url!);
    url.hostname = host;
    const at = { ...status, url: url.href } as RuntimeStatus;
    const answers = (code: number) => soon(async () => expect((await get(at)).status).toBe(code));
    await answers(404);
    expect(await runtime.setHosts(one.serviceId, [{ host }])).toMatchObject([{ host }]);
    await answers(200);
    expect((await runtime.status(one.serviceId))?.hosts).toEqual([{ host }]);
    await runtime.apply({ ...one, version: 2, env: { ...one.env, ANSWER: "two" } });
    await soon(async () => expect((await get(at)).body).toBe("two"));
    await runtime.setHosts(one.serviceId, [{ host, redirectTo: `www.${host}` }]);
    await soon(async () => expect([301, 308]).toContain((await get(at)).status));
    expect(await runtime.setHosts(one.serviceId, [])).toEqual([]);
    await answers(404);
    await runtime.setHosts(one.serviceId, [{ host }]);
    await answers(200);
    await runtime.remove(one.serviceId);
    await answers(404);
  });
}
