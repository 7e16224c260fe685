import { describe, expect, onTestFinished, test } from "vitest";
import { createLog } from "../log.ts";
import { metricsText } from "../telemetry.ts";
import { eventually } from "../testing/testing.ts";
import { defineTask, startTask, type Task } from "./task.ts";

const HOUR_MS = 3_600_000;
const does = "Counts its runs.";

/** Starts a task of this test; `lines` are what it logs. */
function started(task: Partial<Task>, run: Parameters<typeof startTask>[1], options: object = {}) {
  const lines: Record<string, unknown>[] = [];
  const log = createLog("test", "info", (line) => void lines.push(JSON.parse(line)));
  const declared = defineTask({ name: "counting", does, everyMs: HOUR_MS, ...task });
  const running = startTask(declared, run, { log, ...options });
  onTestFinished(() => running.stop());
  return { ...running, lines };
}

/** Returns the value of a metric of a task now, undefined when it is not reported. */
async function metric(name: string, labels = 'task="counting"'): Promise<number | undefined> {
  const line = (await metricsText())
    .split("\n")
    .find((one) => one.startsWith(`berth_task_${name}{${labels}`));
  return line === undefined ? undefined : Number(line.split(" ").at(-1));
}

test("a run follows a failed one, never beside it, and `stop` waits for the run under way", async () => {
  const [inLast, last] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  let [runs, running] = [0, 0];
  const task = started({ everyMs: 1, atOnce: true }, async () => {
    expect(++running).toBe(1);
    if (++runs === 3) {
      inLast.resolve();
      await last.promise;
    }
    running--;
    if (runs === 1) throw new Error("first");
  });
  await inLast.promise;
  let stopped = false;
  const stopping = task.stop().then(() => {
    stopped = true;
  });
  await Promise.resolve();
  expect(stopped).toBe(false);
  last.resolve();
  await stopping;
  expect(runs).toBe(3);
});

test("the first run follows the first pause, unless it is to come at once", async () => {
  let runs = 0;
  const run = async () => void runs++;
  const waiting = started({}, run);
  started({ name: "other", atOnce: true }, run);
  expect(runs).toBe(1);
  waiting.wake();
  await eventually("the pause ended", async () => runs === 2);
});

test("whoever wakes it during a run gets one more run afterwards, however many they are", async () => {
  const entered = Promise.withResolvers<void>();
  const go = Promise.withResolvers<void>();
  let runs = 0;
  const task = started({ atOnce: true }, async () => {
    if (++runs > 1) return;
    entered.resolve();
    await go.promise;
  });
  await entered.promise;
  for (let times = 0; times < 3; times++) task.wake();
  go.resolve();
  await eventually("another run", async () => runs === 2);
  task.wake();
  await eventually("a run after the pause began", async () => runs === 3);
});

test("a run that leaves more to do is followed by another at once, one that knows when, in that time", async () => {
  const next = ["more", { inMs: 5 }, "more", undefined] as const;
  let runs = 0;
  started({ atOnce: true }, async () => next[runs++]);
  await eventually("all runs", async () => runs === 4);
});

test("a failed run is repeated after a pause of its own", async () => {
  let runs = 0;
  started({ atOnce: true, retryMs: 1 }, async () => {
    if (++runs < 3) throw new Error("away");
  });
  await eventually("it ended well", async () => (await metric("succeeded_timestamp_seconds")) !== undefined);
  expect(runs).toBe(3);
});

test("the signal ends a run between its batches, and what it interrupts is no failure", async () => {
  const before = (await metric("runs_total", 'task="counting",outcome="failed"')) ?? 0;
  let batches = 0;
  const task = started({ atOnce: true }, async (signal) => {
    for (; !signal.aborted; batches++) await new Promise(setImmediate);
    throw new Error("stopped within");
  });
  await eventually("some batches", async () => batches > 2);
  await task.stop();
  expect(task.lines).toEqual([]);
  expect(await metric("runs_total", 'task="counting",outcome="failed"')).toBe(before);
});

describe("its failures", () => {
  test("are counted, and logged with its name and what it does, the first of a series and then once a minute", async () => {
    let runs = 0;
    const count = () => metric("runs_total", 'task="counting",of="one",outcome="failed"');
    const before = (await count()) ?? 0;
    const task = started(
      { everyMs: 1, atOnce: true },
      async () => {
        if (++runs !== 4) throw new Error(`away ${runs}`);
      },
      { of: "one" },
    );
    await eventually("many failures", async () => ((await count()) ?? 0) > before + 6);
    await task.stop();
    expect(
      task.lines.map(({ level, task, of, does, failures }) => [level, task, of, does, failures]),
    ).toEqual([
      ["warn", "counting", "one", does, 1],
      ["warn", "counting", "one", does, 1],
    ]);
    expect(JSON.stringify(task.lines[1])).toContain("away 5");
  });

  test("are logged no further than the task allows", async () => {
    const run = async () => Promise.reject(new Error("a card's number"));
    const task = started({ atOnce: true }, run, { toLog: () => ({ cause: "refused" }) });
    await eventually("a line", async () => task.lines.length === 1);
    expect(task.lines[0]).toMatchObject({ cause: "refused" });
    expect(JSON.stringify(task.lines)).not.toContain("card");
  });
});

test("metrics say of each task since when, how often, how long and when it ended well, until it is stopped", async () => {
  const began = Date.now() / 1_000;
  let away = true;
  const task = started({ atOnce: true }, async () => {
    if (away) throw new Error("away");
  });
  await eventually("a run", async () => (await metric("last_run_seconds")) !== undefined);
  expect(await metric("period_seconds")).toBe(3_600);
  expect(await metric("started_timestamp_seconds")).toBeGreaterThanOrEqual(began);
  expect(await metric("succeeded_timestamp_seconds")).toBeUndefined();
  away = false;
  task.wake();
  await eventually("it ended well", async () => (await metric("succeeded_timestamp_seconds")) !== undefined);
  expect(await metric("succeeded_timestamp_seconds")).toBeGreaterThanOrEqual(began);
  await task.stop();
  expect(await metric("period_seconds")).toBeUndefined();
  expect(await metric("succeeded_timestamp_seconds")).toBeUndefined();
});
