import { setTimeout as delay } from "node:timers/promises";
import { maskSecrets } from "../../../../shared/mask-secrets.ts";
import { READ_LINES } from "../../../crash-excerpt.ts";
import { describeOutOfMemory, quoteOutput } from "../../../status-messages.ts";
import type { GenerationRecord, InstanceRecord } from "../record/service-record.ts";
import { waitUntilHealthy, watchHealth } from "./health-check.ts";
import { type Instance, type InstanceContext, startInstance } from "./instance.ts";
import { explainSlowStart } from "./slow-start.ts";

/** Times in ms. */
export type RestartTimes = {
  /** Pause before the first restart; doubles with each further crash in a row. */
  firstPauseMs: number;
  longestPauseMs: number;
  /** How long an instance must be available to end the row of crashes. */
  stableMs: number;
  graceMs: number;
  /** How long an app takes to start until the status says what is waited for. */
  slowMs: number;
  /** How often an available app is probed. */
  probeMs: number;
};

export type Replica = {
  readonly index: number;
  /** The record of its current instance. */
  record(): InstanceRecord | undefined;
  available(): boolean;
  /** It was available and still runs, but does not answer. */
  silent(): boolean;
  /** A sentence that says what keeps it from being available, once it takes long. */
  slow(): string | undefined;
  /** The number of crashes in a row, and how the last one ended. */
  crashes(): number;
  lastEnd(): string | undefined;
  /** Ends it for good, once `drained` has resolved. */
  retire(graceMs: number, drained?: (record: InstanceRecord) => Promise<void>): Promise<void>;
};

/**
 * Keeps one replica of a release running: starts it, waits until it is available, restarts it with growing pauses when
 * it ends. Calls `changed` after every change of what the replica's functions return.
 */
export function superviseReplica(
  home: InstanceContext,
  rollout: GenerationRecord,
  index: number,
  times: RestartTimes,
  adopted: Instance | undefined,
  changed: () => void,
): Replica {
  const retired = new AbortController();
  let instance: Instance | undefined = adopted;
  let crashes = 0;
  let lastEnd: string | undefined;
  let silent = false;
  let slow: string | undefined;
  const done = Promise.resolve().then(run); // deferred, so that `changed` is not called before this returns

  async function run(): Promise<void> {
    while (!retired.signal.aborted) {
      try {
        instance ??= await startInstance(home, rollout, index);
        if (retired.signal.aborted) return;
        changed();
        await superviseInstance(instance);
      } catch (error) {
        crashed(`The app could not be started: ${(error as Error).message}`); // the disk is full, for example
      }
      if (retired.signal.aborted) return;
      const pause = Math.min(times.longestPauseMs, times.firstPauseMs * 2 ** (crashes - 1));
      await delay(pause, undefined, { signal: retired.signal, ref: false }).catch(() => {});
      if (!retired.signal.aborted) rollout.restarts++;
    }
  }

  /** Resolves when the instance has ended and, unless it was retired, its end is described. */
  async function superviseInstance(current: Instance): Promise<void> {
    const ended = new AbortController();
    const checking = checkHealth(current, AbortSignal.any([ended.signal, retired.signal]));
    const ending = await current.ended;
    const how = current.ranOutOfMemory() ? describeOutOfMemory(rollout.release.size) : ending;
    ended.abort();
    await checking;
    silent = false;
    if (retired.signal.aborted) return;
    const lasted = current.record.availableAt === undefined ? 0 : Date.now() - current.record.availableAt;
    if (lasted >= times.stableMs) crashes = 0;
    current.record.availableAt = undefined;
    instance = undefined;
    lastEnd = how;
    changed(); // now, so that no more requests are routed to it
    await current.end(0);
    crashed(`${how} ${await lastOutput(current.record.name)}`);
  }

  function crashed(sentence: string): void {
    crashes++;
    lastEnd = sentence;
    changed();
  }

  /** Waits until the instance is available, then watches whether it answers; until it ends. */
  async function checkHealth(current: Instance, signal: AbortSignal): Promise<void> {
    const { record } = current;
    const { type, minReadySeconds, healthCheckPath } = rollout.release;
    try {
      if (record.availableAt === undefined) {
        if (type === "web") record.host = await waitForAnswer(current, healthCheckPath, signal);
        await delay(minReadySeconds * 1000, undefined, { signal, ref: false });
        record.availableAt = Date.now();
        changed();
      }
      const { host, port } = record;
      if (host === undefined) return; // a worker
      await watchHealth({ host, port, path: healthCheckPath }, times.probeMs, signal, (now) => {
        silent = now;
        changed();
      });
    } catch {
      // The signal aborted: the instance ended or is being retired.
    }
  }

  /** Returns the address on which the app answers; says why it does not, while that takes long. */
  async function waitForAnswer(
    { record, folder }: Instance,
    path: string | undefined,
    signal: AbortSignal,
  ): Promise<string> {
    const answered = new AbortController();
    const until = AbortSignal.any([signal, answered.signal]);
    const explaining = explainSlowStart({ port: record.port, path, folder }, times.slowMs, until, (why) => {
      slow = maskSecrets(secrets())(why);
      changed();
    });
    try {
      return await waitUntilHealthy(record.port, path, signal);
    } finally {
      answered.abort();
      await explaining;
      slow = undefined;
    }
  }

  async function lastOutput(name: string): Promise<string> {
    const { lines } = await home.logs.page({ instance: name }, READ_LINES);
    return quoteOutput(lines.map((line) => line.message).reverse(), secrets());
  }

  function secrets(): string[] {
    const { env, sensitive = [] } = rollout.release;
    return sensitive.map((variable) => env[variable] ?? "");
  }

  async function retire(graceMs: number, drained?: (record: InstanceRecord) => Promise<void>): Promise<void> {
    retired.abort();
    if (drained && instance) await drained(instance.record);
    await instance?.end(graceMs);
    await done;
    await instance?.end(graceMs); // one that was just being started
  }

  return {
    index,
    record: () => instance?.record,
    available: () => instance?.record.availableAt !== undefined && !silent,
    silent: () => silent,
    slow: () => slow,
    crashes: () => crashes,
    lastEnd: () => lastEnd,
    retire,
  };
}
