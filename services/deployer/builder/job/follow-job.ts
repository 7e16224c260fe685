import { setTimeout as delay } from "node:timers/promises";
import type { V1Job, V1Pod } from "@kubernetes/client-node";
import type { Kube } from "../../kube/client.ts";
import { startInformer } from "../../kube/informer.ts";
import { Job, Pod } from "../../kube/kinds.ts";
import { selector } from "../../kube/names.ts";
import { readPodLog } from "../../kube/pod-log.ts";
import type { Logger } from "../../runtime/port.ts";
import type { BuildRequest } from "../port.ts";
import { buildLabels, CONTAINER_NAME } from "./job-manifest.ts";
import type { JobEnd, JobRecord } from "./job-request.ts";
import { stateOf } from "./job-state.ts";

/** What is read of an ended build's log after its end: its node may be gone. */
const LAST_READ_MS = 10_000;
const READ_AGAIN_MS = 500;

/**
 * Follows a build's Job to its end, from the first line of its log, whoever began it; gives how it ended.
 * Throws the signal's reason when that aborts, and what `told` throws.
 */
export async function followJob(
  kube: Kube,
  { namespace, buildId }: { namespace: string; buildId: string },
  events: Pick<BuildRequest, "onStage" | "onCommit" | "log">,
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
  const state = () => stateOf([...jobs.objects.values()][0], newest(), ran);
  const reader = createReader(kube, events, until, () => wake());
  let waitsFor: string | undefined;
  try {
    await Promise.race([Promise.all([jobs.synced, pods.synced]), aborted(until)]);
    for (;;) {
      signal.throwIfAborted();
      const next = new Promise<void>((resolve) => {
        wake = resolve;
      });
      const now = state();
      const end = reader.end();
      if (end) return end;
      const pod = newest();
      ran ||= now.is === "running";
      if (pod && now.is !== "waiting") reader.start(pod, () => state().is === "ended");
      if (now.is === "ended") {
        const late = delay(LAST_READ_MS, undefined, { signal: until, ref: false }).catch(() => {});
        if (pod) await Promise.race([reader.done(), late]);
        signal.throwIfAborted();
        return reader.end() ?? now.end;
      }
      if (now.is === "waiting" && now.why !== undefined && now.why !== waitsFor) {
        waitsFor = now.why;
        events.log(`The build waits: ${now.why}.`);
        log.warn({ buildId, namespace, why: now.why }, "a build waits");
      }
      await next;
    }
  } finally {
    stopping.abort();
    await Promise.all([jobs.stop(), pods.stop()]);
  }
}

/** Reads a pod's log, again from the beginning when the connection breaks, and tells each record once. */
function createReader(
  kube: Kube,
  events: Pick<BuildRequest, "onStage" | "onCommit" | "log">,
  signal: AbortSignal,
  wake: () => void,
) {
  let [seen, end, broken] = [
    -1,
    undefined as JobEnd | undefined,
    undefined as { error: unknown } | undefined,
  ];
  let reading: Promise<void> | undefined;

  function take(line: string): void {
    const record = parse(line.slice(line.indexOf(" ") + 1));
    if (!record || record.n <= seen) return;
    seen = record.n;
    if ("stage" in record) events.onStage(record.stage);
    else if ("commit" in record) events.onCommit?.(record.commit);
    else if ("line" in record) events.log(record.line);
    else end = record.end;
  }

  async function read(pod: V1Pod, isOver: () => boolean): Promise<void> {
    const { name = "", namespace = "" } = pod.metadata ?? {};
    while (!signal.aborted) {
      const last = isOver(); // then this time there is all of it
      const lines = readPodLog(
        kube,
        { name, namespace },
        { container: CONTAINER_NAME, follow: true },
        signal,
      );
      try {
        while (!signal.aborted) {
          const next = await lines.next().catch(() => undefined);
          if (!next || next.done) break;
          take(next.value);
          if (end) return;
        }
      } finally {
        await lines.return(undefined);
      }
      if (last) return;
      await delay(READ_AGAIN_MS, undefined, { signal, ref: false }).catch(() => {});
    }
  }

  return {
    start(pod: V1Pod, isOver: () => boolean): void {
      reading ??= read(pod, isOver)
        .catch((error) => {
          broken = { error };
        })
        .then(wake);
    },
    done: () => reading,
    /** How the build says it ended; throws what the log's reader threw. */
    end(): JobEnd | undefined {
      if (broken) throw broken.error;
      return end;
    },
  };
}

function createdMs(pod: V1Pod): number {
  return pod.metadata?.creationTimestamp ? new Date(pod.metadata.creationTimestamp).getTime() : 0;
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener("abort", () => resolve(), { once: true });
  });
}

function parse(text: string): JobRecord | undefined {
  try {
    const value = JSON.parse(text);
    return typeof value?.n === "number" ? value : undefined;
  } catch {
    return undefined; // what the program's own platform says
  }
}
