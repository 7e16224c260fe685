import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, expect, vi } from "vitest";
import type { Release, Runtime, RuntimeStatus } from "../../../../services/deployer/runtime/port.ts";

export type RuntimeHarness = {
  runtime: Runtime;
  /** An artifact in which `node` is on PATH. */
  artifact: string;
  /** Sends a GET to a service's URL; returns status and body. */
  fetch(url: string, path: string): Promise<{ status: number; body: string }>;
  /** False when stdout and stderr arrive as one stream, which then is stdout. */
  splitsStreams?: boolean;
  close(): Promise<void>;
};

let services = 0;

/** Returns a release of a new service whose process runs `script`. */
export function releaseOf(artifact: string, script: string, changes: Partial<Release> = {}): Release {
  services++;
  const serviceId = `svc_${process.pid}x${services}`;
  return {
    serviceId,
    accountId: "acc_1",
    projectId: "prj_1",
    environmentId: "env_1",
    names: { project: "shop", environment: "test", service: `app${services}` },
    type: "web",
    version: 1,
    revision: 1,
    artifact,
    command: `node -e "$SCRIPT"`,
    port: 8080,
    replicas: 1,
    size: "nano",
    minReadySeconds: 0,
    ...changes,
    env: { SCRIPT: script, ANSWER: "one", ...changes.env },
  };
}

/** Resolves with the first status that meets `wanted`; throws after 40 s. */
export async function statusOf(
  runtime: Runtime,
  serviceId: string,
  wanted: (status: RuntimeStatus) => boolean,
): Promise<RuntimeStatus> {
  for (const until = Date.now() + 40_000; ; await delay(20)) {
    const status = await runtime.status(serviceId);
    if (status && wanted(status)) return status;
    if (Date.now() > until) throw new Error(`the service did not get there: ${JSON.stringify(status)}`);
  }
}

export const isRunning = (status: RuntimeStatus) => status.state === "running";

export type RuntimeTools = ReturnType<typeof openRuntime>;

/** Opens a runtime for the tests of this `describe`, and returns what they need. */
export function openRuntime(open: () => Promise<RuntimeHarness>) {
  let harness: RuntimeHarness;
  beforeAll(async () => {
    harness = await open();
  });
  afterAll(() => harness.close());
  const get = (status: RuntimeStatus, path = "/") => harness.fetch(status.url!, path);
  /** On several machines, requests are routed by a change a moment after the runtime has reported it. */
  const soon = (answered: () => Promise<void>) => vi.waitFor(answered, { timeout: 10_000, interval: 20 });
  const answersWith = (status: RuntimeStatus, code: number) =>
    soon(async () => expect((await get(status)).status).toBe(code));
  return {
    runtime: () => harness.runtime,
    release: (script: string, changes: Partial<Release> = {}) => releaseOf(harness.artifact, script, changes),
    get,
    soon,
    answersWith,
    async running({ serviceId }: Release): Promise<RuntimeStatus> {
      const status = await statusOf(harness.runtime, serviceId, isRunning);
      if (status.url) await answersWith(status, 200);
      return status;
    },
    /** The stream under which lines of stderr are found. */
    stderr: () => (harness.splitsStreams === false ? "stdout" : "stderr"),
  };
}
