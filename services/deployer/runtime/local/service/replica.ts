import { setTimeout as delay } from "node:timers/promises";
import { maskSecrets } from "../../../shared/mask-secrets.ts";
import { waitUntilHealthy, watchHealth } from "./health-check.ts";
import { type Instance, type InstanceContext, startInstance } from "./instance.ts";
import type { GenerationRecord, InstanceRecord } from "./service-record.ts";

/** Times in ms. */
export type RestartTimes = {
  /** Pause before the first restart; doubles with each further crash in a row. */
  firstPauseMs: number;
  longestPauseMs: number;
  /** An instance that was available this long ends the row of crashes. */
  stableMs: number;
  graceMs: number;
  /** How often an app that is available is asked whether it still answers. */
  probeMs: number;
};

export type Replica = {
  readonly index: number;
  /** The instance that runs now. */
  record(): InstanceRecord | undefined;
  available(): boolean;
  /** It was available and runs, but does not answer. */
  silent(): boolean;
  /** Crashes in a row, and what is known of the last one. */
  crashes(): number;
  lastEnd(): string | undefined;
  /** Ends it for good, after `drained`. */
  retire(graceMs: number, drained?: (record: InstanceRecord) => Promise<void>): Promise<void>;
};

/**
 * Keeps one replica of a release running: starts it, waits until it is available, starts it again with
 * growing pauses when it ends. Calls `changed` after every change of what the other functions give.
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
  const done = Promise.resolve().then(run); // later, so that `changed` is not called before this returns

  async function run(): Promise<void> {
    while (!retired.signal.aborted) {
      try {
        instance ??= await startInstance(home, rollout, index);
        if (retired.signal.aborted) return;
        changed();
        await live(instance);
      } catch (error) {
        crashed(`It could not be started: ${(error as Error).message}`); // the disk is full, for example
      }
      if (retired.signal.aborted) return;
      const pause = Math.min(times.longestPauseMs, times.firstPauseMs * 2 ** (crashes - 1));
      await delay(pause, undefined, { signal: retired.signal, ref: false }).catch(() => {});
      if (!retired.signal.aborted) rollout.restarts++;
    }
  }

  /** From start to end of one instance. */
  async function live(current: Instance): Promise<void> {
    const over = new AbortController();
    const becoming = becomeAvailable(current, AbortSignal.any([over.signal, retired.signal]));
    const how = await current.ended;
    over.abort();
    await becoming;
    silent = false;
    if (retired.signal.aborted) return;
    const lasted = current.record.availableAt === undefined ? 0 : Date.now() - current.record.availableAt;
    if (lasted >= times.stableMs) crashes = 0;
    current.record.availableAt = undefined;
    instance = undefined;
    lastEnd = `It ${how}.`;
    changed(); // at once: nothing may be routed to it any more
    await current.end(0);
    crashed(`It ${how}.${await lastWords(current.record.name)}`);
  }

  function crashed(sentence: string): void {
    crashes++;
    lastEnd = sentence;
    changed();
  }

  /** Until it ends: first until it is available, then while it answers. */
  async function becomeAvailable(current: Instance, signal: AbortSignal): Promise<void> {
    const { record } = current;
    const { type, minReadySeconds, healthCheckPath } = rollout.release;
    try {
      if (record.availableAt === undefined) {
        if (type === "web") record.host = await waitUntilHealthy(record.port, healthCheckPath, signal);
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
      // It ended, or is not wanted any more: both are seen elsewhere.
    }
  }

  async function lastWords(name: string): Promise<string> {
    const { lines } = await home.logs.page({ instance: name }, 10);
    if (lines.length === 0) return " It wrote nothing.";
    const mask = maskSecrets(rollout.release.sensitive?.map((one) => rollout.release.env[one] ?? "") ?? []);
    return ` Its last lines:\n${mask(
      lines
        .reverse()
        .map((line) => line.message.slice(0, 500))
        .join("\n"),
    )}`;
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
    crashes: () => crashes,
    lastEnd: () => lastEnd,
    retire,
  };
}
