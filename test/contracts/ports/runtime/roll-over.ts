import { beforeAll, expect, test } from "vitest";
import type { Runtime } from "../../../../services/deployer/runtime/port.ts";
import { answeringApp, crashingApp, namedApp } from "./apps.ts";
import { isRunning, type RuntimeTools, statusOf } from "./harness.ts";

/** How every runtime replaces a release by the next. */
export function rollOverContract(tools: RuntimeTools): void {
  const { release, get, soon, running } = tools;
  let runtime: Runtime;
  beforeAll(() => {
    runtime = tools.runtime();
  });

  test("a new revision of the variables rolls over without a refused request", async () => {
    const one = release(answeringApp, { env: { ANSWER: "old" } });
    await runtime.apply(one);
    const before = await running(one);
    await runtime.apply({ ...one, revision: 2, env: { ...one.env, ANSWER: "new" } });
    const answers: { status: number; body: string }[] = [];
    do answers.push(await get(before));
    while (answers.at(-1)!.body !== "new" && answers.length < 20_000);
    expect(answers.filter((answer) => answer.status !== 200)).toEqual([]);
    const after = await statusOf(runtime, one.serviceId, (now) => isRunning(now) && now.revision === 2);
    expect(after.url).toBe(before.url);
    await soon(async () => expect((await get(after)).body).toBe("new"));
  });

  test("a request that the old release has taken is answered by it", async () => {
    const one = release(answeringApp, { env: { ANSWER: "slow", DELAY: "1500" } });
    await runtime.apply(one);
    const before = await running(one);
    const slow = get(before);
    await runtime.apply({ ...one, version: 2, env: { ...one.env, DELAY: "0", ANSWER: "quick" } });
    await statusOf(runtime, one.serviceId, (now) => isRunning(now) && now.version === 2);
    await soon(async () => expect((await get(before)).body).toBe("quick"));
    expect(await slow).toEqual({ status: 200, body: "slow" });
  });

  test("a release that never gets healthy leaves the old one serving, and says why", async () => {
    const one = release(answeringApp, { env: { ANSWER: "still here" } });
    await runtime.apply(one);
    await running(one);
    await runtime.apply({ ...one, version: 2, env: { SCRIPT: crashingApp } });
    const status = await statusOf(runtime, one.serviceId, (now) => now.state === "degraded");
    expect(status).toMatchObject({
      version: 2,
      reason: "crash_loop",
      serving: { version: 1, revision: 1 },
    });
    expect(status.message).toContain("cannot find my settings");
    expect(status.healthySince).toBeUndefined();
    expect((await get(status)).body).toBe("still here");
  });

  test("rolling starts new replicas of the same release once, without a refused request", async () => {
    const one = release(namedApp);
    await runtime.apply(one);
    const first = await running(one);
    const { body } = await get(first);
    await runtime.roll(one.serviceId, 1, 1);
    const answers: { status: number; body: string }[] = [];
    do answers.push(await get(first));
    while (answers.at(-1)!.body === body && answers.length < 20_000);
    expect(answers.filter((answer) => answer.status !== 200)).toEqual([]);
    const rolled = await statusOf(
      runtime,
      one.serviceId,
      (status) => status.rolls === 1 && isRunning(status),
    );
    await soon(async () => expect((await get(rolled)).body).not.toBe(body));
    expect(rolled).toMatchObject({ version: 1, revision: 1, serving: { version: 1, revision: 1 } });
    const after = (await get(rolled)).body;
    await runtime.roll(one.serviceId, 1, 1);
    await runtime.roll(one.serviceId, 7, 2); // not the version that is applied
    await runtime.roll(`${one.serviceId}x`, 1, 1); // not there
    await runtime.apply({ ...one, rolls: 1 });
    expect((await running(one)).rolls).toBe(1);
    expect((await get(rolled)).body).toBe(after);
  });
}
