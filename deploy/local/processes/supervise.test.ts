import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { beforeEach, expect, onTestFinished, test } from "vitest";
import { freePort } from "../../../services/kit/process/free-port.ts";
import { projectDir } from "../terminal/options.ts";
import { until } from "../testing.ts";
import { startChild } from "./child.ts";
import { commandLine } from "./process-table.ts";
import { startProgram } from "./program-process.ts";
import { keepRunning, type Running } from "./supervise.ts";

let dir: string;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "berth-keep-"));
  // Registered first and so called last: what a test started in the folder has ended by then.
  onTestFinished(() => rm(dir, { recursive: true, force: true }));
});

/** A part that waits to be ended; `started` lists the process ids it had. */
function waiting(started: number[], script = "setInterval(() => {}, 1e6)") {
  return {
    name: "waiter",
    start: async (): Promise<Running> => {
      const command = { file: process.execPath, args: ["-e", script], env: process.env, cwd: dir };
      const child = await startChild(command, join(dir, "waiter.log"), "SIGKILL");
      started.push(child.pid);
      const stop = async () => void (await child.end("SIGTERM", 2_000));
      return { pid: child.pid, exited: child.exited, stop, kill: () => child.kill("SIGKILL") };
    },
  };
}

test("a process that dies is started again, and a line says so", async () => {
  const started: number[] = [];
  const lines: string[] = [];
  const kept = keepRunning(waiting(started), (line) => lines.push(line));
  onTestFinished(() => kept.stop());
  const { pid } = await kept.ready;
  process.kill(pid, "SIGKILL");
  await until(() => lines.length === 2);
  expect(lines).toEqual(["waiter was ended by SIGKILL; it is started again in 0.25 s", "waiter runs again"]);
  expect(await commandLine(started[1] as number)).toBeDefined();
});

test("the pause before another start grows while a process keeps dying", async () => {
  const lines: string[] = [];
  const kept = keepRunning(waiting([], "process.exit(3)"), (line) => lines.push(line));
  onTestFinished(() => kept.stop());
  const pauses = () => lines.flatMap((line) => line.match(/ended with code 3; .* in ([\d.]+) s/)?.[1] ?? []);
  await until(() => pauses().length === 3);
  expect(pauses()).toEqual(["0.25", "0.5", "1"]);
});

test("what is stopped is not started again", async () => {
  const started: number[] = [];
  const lines: string[] = [];
  const kept = keepRunning(waiting(started), (line) => lines.push(line));
  await kept.ready;
  await kept.stop();
  await kept.stop();
  expect(lines).toEqual([]);
  expect(await commandLine(started[0] as number)).toBeUndefined();
});

test("a stop during the first start ends what had begun", async () => {
  const started: number[] = [];
  const kept = keepRunning(waiting(started), () => {});
  await kept.stop();
  await kept.ready;
  expect(started).toHaveLength(1);
  expect(await commandLine(started[0] as number)).toBeUndefined();
});

test("a program that dies while starting is reported with the end of its log", async () => {
  await writeFile(join(dir, "main.ts"), "console.log('the last words'); process.exit(4);");
  const options = {
    name: "thing",
    folder: relative(projectDir, dir),
    env: { PATH: process.env.PATH ?? "" },
    port: await freePort(),
    data: dir,
    log: join(dir, "thing.log"),
    graceMs: 1_000,
  };
  await expect(startProgram(options, new AbortController().signal)).rejects.toMatchObject({
    kind: "serviceFailed",
    message: expect.stringMatching(/thing did not start: it ended with code 4[\s\S]*the last words/),
  });
});
