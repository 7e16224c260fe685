import { expect, test } from "vitest";
import {
  type Release,
  RUN_OUTPUT_LINES,
  type RunStatus,
} from "../../../../services/deployer/runtime/port.ts";
import type { RuntimeTools } from "./harness.ts";

let count = 0;

/** What every runtime does with commands that run once. */
export function runContract({ runtime, release, soon }: RuntimeTools): void {
  const newRun = (command: string, changes: Partial<Release> = {}) => {
    const own = release("", changes);
    const { serviceId, environmentId } = own;
    const name = `run-${process.pid}-${++count}`;
    return {
      run: { name, release: own, command, deadlineSeconds: 60 },
      place: { name, serviceId, environmentId },
    };
  };
  const until = async ({ place }: ReturnType<typeof newRun>, state: RunStatus["state"]) => {
    await soon(async () => expect((await runtime().runs.status(place))?.state).toBe(state));
    return runtime().runs.status(place);
  };

  test("a run has the variables of its release; its output and exit code are there once it has ended", async () => {
    const one = newRun("echo $GREETING; echo problem >&2; exit 3", { env: { GREETING: "hello" } });
    await runtime().runs.start(one.run);
    expect(await until(one, "failed")).toEqual({ state: "failed", exitCode: 3 });
    expect((await runtime().runs.output(one.place)).toSorted()).toEqual(["hello", "problem"]);
    await runtime().runs.remove(one.place);
  });

  test("a run without a command of its own runs the release's start command", async () => {
    const { run, place } = newRun("", { env: { SCRIPT: "console.log('started')" } });
    await runtime().runs.start({ ...run, command: undefined });
    const one = { run, place };
    expect(await until(one, "succeeded")).toEqual({ state: "succeeded", exitCode: 0 });
    expect(await runtime().runs.output(place)).toEqual(["started"]);
    await runtime().runs.remove(place);
  });

  test("of much output the beginning is returned, and the end on request", async () => {
    const one = newRun(
      "i=0; while [ $i -lt 6000 ]; do i=$((i+1)); echo $i; done; echo no such table; exit 1",
    );
    await runtime().runs.start(one.run);
    await until(one, "failed");
    const lines = await runtime().runs.output(one.place);
    expect([lines.length, lines[0], lines.at(-1)]).toEqual([RUN_OUTPUT_LINES, "1", String(RUN_OUTPUT_LINES)]);
    expect(await runtime().runs.output(one.place, 2)).toEqual(["6000", "no such table"]);
    await runtime().runs.remove(one.place);
  });

  test("a run that is started twice runs once, also after it has ended", async () => {
    const one = newRun("echo ran");
    await Promise.all([runtime().runs.start(one.run), runtime().runs.start(one.run)]);
    expect(await until(one, "succeeded")).toEqual({ state: "succeeded", exitCode: 0 });
    await runtime().runs.start(one.run);
    expect(await until(one, "succeeded")).toEqual({ state: "succeeded", exitCode: 0 });
    expect(await runtime().runs.output(one.place)).toEqual(["ran"]);
    await runtime().runs.remove(one.place);
  });

  test("a run is no service, and removing it ends it", async () => {
    const one = newRun("echo waiting; sleep 600");
    expect(await runtime().runs.status(one.place)).toBeUndefined();
    await runtime().runs.start(one.run);
    await soon(async () => expect(await runtime().runs.output(one.place)).toEqual(["waiting"]));
    expect((await until(one, "running"))?.state).toBe("running");
    expect(await runtime().status(one.place.serviceId)).toBeUndefined();
    await runtime().runs.remove(one.place);
    await runtime().runs.remove(one.place);
    expect(await runtime().runs.status(one.place)).toBeUndefined();
    expect(await runtime().runs.output(one.place)).toEqual([]);
  });
}
