import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { beforeEach, expect, onTestFinished, test } from "vitest";
import { freePort } from "../../../services/kit/process/free-port.ts";
import { startProgram } from "../programs/program-process.ts";
import { projectDir } from "../terminal/options.ts";
import { until } from "../testing.ts";
import { startChild } from "./child.ts";
import { commandLine } from "./process-table.ts";
import type { Running } from "./running.ts";
import { supervise } from "./supervise.ts";

let dir: string;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "berth-supervise-"));
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

test("a process that dies is restarted, and a line says so", async () => {
  const started: number[] = [];
  const lines: string[] = [];
  const supervised = supervise(waiting(started), (line) => lines.push(line));
  onTestFinished(() => supervised.stop());
  const { pid } = await supervised.ready;
  process.kill(pid, "SIGKILL");
  await until(() => lines.length === 2);
  expect(lines).toEqual(["waiter was killed by SIGKILL; restarting in 0.25 s", "waiter restarted"]);
  // Linux shows the arguments of a process a moment after it has started.
  await until(async () => (await commandLine(started[1] as number)) !== undefined);
});

test("the backoff grows while a process keeps dying", async () => {
  const lines: string[] = [];
  const supervised = supervise(waiting([], "process.exit(3)"), (line) => lines.push(line));
  onTestFinished(() => supervised.stop());
  const backoffs = () =>
    lines.flatMap((line) => line.match(/exited with code 3; .* in ([\d.]+) s/)?.[1] ?? []);
  await until(() => backoffs().length === 3);
  expect(backoffs()).toEqual(["0.25", "0.5", "1"]);
});

test("what is stopped is not restarted", async () => {
  const started: number[] = [];
  const lines: string[] = [];
  const supervised = supervise(waiting(started), (line) => lines.push(line));
  await supervised.ready;
  await supervised.stop();
  await supervised.stop();
  expect(lines).toEqual([]);
  expect(await commandLine(started[0] as number)).toBeUndefined();
});

test("a stop during the first start ends what had begun", async () => {
  const started: number[] = [];
  const supervised = supervise(waiting(started), () => {});
  await supervised.stop();
  await supervised.ready;
  expect(started).toHaveLength(1);
  expect(await commandLine(started[0] as number)).toBeUndefined();
});

test("a program that dies while starting is reported with the end of its log", async () => {
  await writeFile(join(dir, "main.ts"), "console.log('the last words'); process.exit(4);");
  const options = {
    name: "thing",
    folder: relative(projectDir, dir),
    env: { PATH: process.env.PATH ?? "" },
    host: "127.0.0.1",
    port: await freePort(),
    data: dir,
    log: join(dir, "thing.log"),
    graceMs: 1_000,
  };
  await expect(startProgram(options, new AbortController().signal)).rejects.toMatchObject({
    kind: "serviceFailed",
    message: expect.stringMatching(/thing did not start: it exited with code 4[\s\S]*the last words/),
  });
});
