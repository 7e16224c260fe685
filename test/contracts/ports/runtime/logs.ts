import { setTimeout as delay } from "node:timers/promises";
import { beforeAll, expect, test } from "vitest";
import type { LogLine, Runtime } from "../../../../services/deployer/runtime/port.ts";
import { workingApp } from "./apps.ts";
import type { RuntimeTools } from "./harness.ts";

/** What every runtime returns of the output of a service. */
export function logContract(tools: RuntimeTools): void {
  const { release, running, stderr } = tools;
  let runtime: Runtime;
  beforeAll(() => {
    runtime = tools.runtime();
  });

  test("the log is paged from the newest line, and told apart by version and stream", async () => {
    const script = `for (let n = 1; n <= 25; n++) console.log("line", n, "of", process.env.ANSWER);
      console.error("a complaint"); setInterval(() => {}, 1000);`;
    const one = release(script, { type: "worker" });
    const { serviceId, environmentId } = one;
    const written = async (version: number) => {
      for (;;) {
        const { lines } = await runtime.logs({ serviceId, environmentId, version, limit: 100 });
        if (lines.length === 26) return;
        await delay(20);
      }
    };
    await runtime.apply(one);
    await written(1);
    await runtime.apply({ ...one, version: 2, env: { ...one.env, ANSWER: "two" } });
    await written(2);
    const all: LogLine[] = [];
    let cursor: string | undefined;
    do {
      const page = await runtime.logs({
        serviceId,
        environmentId,
        stream: "stdout",
        version: 1,
        limit: 10,
        cursor,
      });
      expect(page.lines.length).toBeLessThanOrEqual(10);
      all.push(...page.lines);
      cursor = page.nextCursor;
    } while (cursor !== undefined);
    const messages = all.map((line) => line.message);
    expect(messages.filter((message) => message !== "a complaint")).toEqual(
      Array.from({ length: 25 }, (_, n) => `line ${25 - n} of one`),
    );
    const apart = stderr() === "stderr";
    expect(messages.includes("a complaint")).toBe(!apart);
    expect(all[0]).toMatchObject({ stream: "stdout", version: 1, replica: expect.any(String) });
    const errors = await runtime.logs({ serviceId, environmentId, stream: "stderr", version: 2, limit: 10 });
    expect(errors.lines.map((line) => line.message)).toEqual(apart ? ["a complaint"] : []);
    const future = await runtime.logs({
      serviceId,
      environmentId,
      since: new Date(Date.now() + 60_000),
      limit: 10,
    });
    expect(future.lines).toEqual([]);
    const bad = runtime.logs({ serviceId, environmentId, limit: 10, cursor: "nonsense" });
    await expect(bad).rejects.toMatchObject({ code: "invalid_cursor" });
  });

  test("a followed log gives each line once, and goes on after the line where it was left", async () => {
    const script = `let n = 0; setInterval(() => console.log("tick", ++n), 20);`;
    const one = release(script, { type: "worker" });
    const { serviceId, environmentId } = one;
    await runtime.apply(one);
    await running(one);
    const take = async (count: number, query: { tail?: number; after?: string }) => {
      const lines: LogLine[] = [];
      const stop = new AbortController();
      for await (const line of runtime.followLogs({ serviceId, environmentId, ...query }, stop.signal)) {
        lines.push(line);
        if (lines.length === count) stop.abort();
      }
      return lines;
    };
    const first = await take(5, { tail: 100 });
    const second = await take(5, { after: first.at(-1)!.cursor });
    const numbers = [...first, ...second].map((line) => Number(line.message.split(" ")[1]));
    expect(numbers).toEqual(Array.from({ length: 10 }, (_, n) => numbers[0]! + n));
  });

  test("an abandoned follower ends, also while nothing is written", async () => {
    const one = release(workingApp, { type: "worker" });
    const { serviceId, environmentId } = one;
    await runtime.apply(one);
    const stop = new AbortController();
    const following = (async () => {
      for await (const _ of runtime.followLogs({ serviceId, environmentId }, stop.signal));
    })();
    stop.abort();
    await following;
  });
}
