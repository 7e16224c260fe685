import { setTimeout as delay } from "node:timers/promises";
import type { V1Job, V1Pod } from "@kubernetes/client-node";
import type { Kube } from "../../kube/client.ts";
import { Job, Pod } from "../../kube/kinds.ts";
import { selector } from "../../kube/names.ts";
import { readPodLog } from "../../kube/pods/pod-log.ts";
import { startInformer } from "../../kube/watch/informer.ts";
import type { Logger } from "../../shared/logger.ts";
import { untilAborted } from "../../shared/until-aborted.ts";
import type { BuildRequest } from "../port.ts";
import { buildLabels, CONTAINER_NAME } from "./job-manifest.ts";
import type { JobEnd, JobRecord } from "./job-request.ts";
import { toJobState } from "./job-state.ts";

/** How long the rest of the log is read after the Job has ended: the node may be gone. */
const LAST_READ_MS = 10_000;
const READ_AGAIN_MS = 500;

type JobEvents = Pick<BuildRequest, "onStage" | "onCommit" | "log">;

/**
 * Follows a build's Job to its end, whoever began it; passes on all of its log, from the first line, and returns how it
 * ended. Throws the signal's reason when that aborts, and the error of an event handler.
 */
export async function followJob(
  kube: Kube,
  { namespace, buildId }: { namespace: string; buildId: string },
  events: JobEvents,
  log: Logger,
  signal: AbortSignal,
): Promise<JobEnd> {
  const stopping = new AbortController();
  const until = AbortSignal.any([signal, stopping.signal]);
  const labels = selector(buildLabels(buildId));
  let wake = () => {};
  const watched = { namespace, labels, log, changed: () => wake() };
  const jobs = startInformer<V1Job>(kube, Job, watched);
  const pods = startInformer<V1Pod>(kube, Pod, watched);
  until.addEventListener("abort", () => wake());

  let ran = false;
  const newest = () => [...pods.objects.values()].sort((one, other) => createdMs(other) - createdMs(one))[0];
  const readState = () => toJobState([...jobs.objects.values()][0], newest(), ran);
  const reader = createReader(kube, events, until, () => wake());
  let reported: string | undefined;
  try {
    await Promise.race([Promise.all([jobs.synced, pods.synced]), untilAborted(until)]);
    for (;;) {
      signal.throwIfAborted();
      const next = new Promise<void>((resolve) => {
        wake = resolve;
      });
      const state = readState();
      const end = reader.end();
      if (end) return end;
      const pod = newest();
      ran ||= state.is === "running";
      if (pod && state.is !== "waiting") reader.start(pod, () => readState().is === "ended");
      if (state.is === "ended") {
        const late = delay(LAST_READ_MS, undefined, { signal: until, ref: false }).catch(() => {});
        if (pod) await Promise.race([reader.done(), late]);
        signal.throwIfAborted();
        return reader.end() ?? state.end;
      }
      if (state.is === "waiting" && state.why !== undefined && state.why !== reported) {
        reported = state.why;
        events.log(`The build cannot start yet: ${state.why}.`);
        log.warn({ buildId, namespace, why: state.why }, "a build cannot start yet");
      }
      await next;
    }
  } finally {
    stopping.abort();
    await Promise.all([jobs.stop(), pods.stop()]);
  }
}

/** Reads a pod's log, again from the beginning when the connection breaks, and passes each record on once. */
function createReader(kube: Kube, events: JobEvents, signal: AbortSignal, wake: () => void) {
  let lastSeen = -1;
  let end: JobEnd | undefined;
  let failure: { error: unknown } | undefined;
  let reading: Promise<void> | undefined;

  function receive(line: string): void {
    const record = parseRecord(line.slice(line.indexOf(" ") + 1));
    if (!record || record.n <= lastSeen) return;
    lastSeen = record.n;
    if ("stage" in record) events.onStage(record.stage);
    else if ("commit" in record) events.onCommit?.(record.commit);
    else if ("line" in record) events.log(record.line);
    else end = record.end;
  }

  async function readOnce({ metadata }: V1Pod): Promise<void> {
    const { name = "", namespace = "" } = metadata ?? {};
    const lines = readPodLog(kube, { name, namespace }, { container: CONTAINER_NAME, follow: true }, signal);
    try {
      while (!signal.aborted && !end) {
        const next = await lines.next().catch(() => undefined);
        if (!next || next.done) return;
        receive(next.value);
      }
    } finally {
      await lines.return(undefined);
    }
  }

  async function read(pod: V1Pod, hasEnded: () => boolean): Promise<void> {
    while (!signal.aborted) {
      const last = hasEnded(); // then the log is complete this time
      await readOnce(pod);
      if (end || last) return;
      await delay(READ_AGAIN_MS, undefined, { signal, ref: false }).catch(() => {});
    }
  }

  return {
    start(pod: V1Pod, hasEnded: () => boolean): void {
      reading ??= read(pod, hasEnded)
        .catch((error) => {
          failure = { error };
        })
        .then(wake);
    },
    done: () => reading,
    /** Returns the end that the program has reported, if it has; throws the error of the reader. */
    end(): JobEnd | undefined {
      if (failure) throw failure.error;
      return end;
    },
  };
}

function createdMs(pod: V1Pod): number {
  return pod.metadata?.creationTimestamp ? new Date(pod.metadata.creationTimestamp).getTime() : 0;
}

function parseRecord(text: string): JobRecord | undefined {
  try {
    const value = JSON.parse(text);
    return typeof value?.n === "number" ? value : undefined;
  } catch {
    return undefined; // a line of Node.js or the container runtime
  }
}
