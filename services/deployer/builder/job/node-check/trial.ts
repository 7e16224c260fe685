import { randomBytes } from "node:crypto";
import { buffer } from "node:stream/consumers";
import { gzipSync } from "node:zlib";
import type { V1Pod } from "@kubernetes/client-node";
import { pack } from "tar-stream";
import { createLog } from "../../../../kit/log.ts";
import { readConfig } from "../../../../kit/process/config.ts";
import { connectKube } from "../../../kube/client.ts";
import { Pod } from "../../../kube/kinds.ts";
import { selector } from "../../../kube/names.ts";
import { placementFields } from "../../../kube/pods/placement.ts";
import { defaultBuildLimits } from "../../port.ts";
import { createJobBuilder, type JobBuilderOptions } from "../adapter.ts";
import { jobBuilderFields, jobBuilderOptions } from "../config.ts";
import { buildLabels } from "../job-manifest.ts";

/** Shorter than helm waits for a test. */
const PATIENCE_MS = 240_000;
const BUILD_MS = 180_000;

/**
 * Builds one small image as every build is built, with a step of its own as root and one as another user, pushes it and
 * removes it. Throws an error that says what the cluster lacks.
 */
export async function tryBuild(
  options: Omit<JobBuilderOptions, "store">,
  print: (line: string) => void,
): Promise<void> {
  const { kube, namespace, baseImages } = options;
  const archive = await toArchive(
    `FROM ${baseImages.static}\nUSER 0\nRUN echo built > /built\nUSER 10001\nRUN cat /built\n`,
  );
  // The archive comes with the request: only the builder is tried, not the object store.
  const stat = { size: archive.length, contentType: "application/gzip", lastModified: new Date() };
  const store = {
    stat: async () => stat,
    presignGet: async () => `data:${stat.contentType};base64,${archive.toString("base64")}`,
  };
  const builder = createJobBuilder({ ...options, store });
  const id = `trial-${randomBytes(4).toString("hex")}`;
  const givingUp = new AbortController();
  const timer = setTimeout(async () => {
    const labels = selector(buildLabels(id));
    const pods = await kube.list(Pod, { namespace, labels }).catch(() => ({ items: [] }));
    givingUp.abort(new Error(explainStart(pods.items[0], namespace)));
  }, PATIENCE_MS);
  try {
    const request = {
      ...{
        buildId: id,
        accountId: id,
        serviceId: id,
        type: "worker" as const,
        port: 8080,
        timeoutMs: BUILD_MS,
      },
      source: { kind: "archive" as const, key: id },
      limits: defaultBuildLimits,
      onStage: print,
      log: print,
    };
    await builder.build(request, givingUp.signal);
    await builder.discard(request);
  } finally {
    clearTimeout(timer);
  }
}

async function toArchive(dockerfile: string): Promise<Buffer> {
  const packed = pack();
  packed.entry({ name: "Dockerfile" }, dockerfile);
  packed.finalize();
  return gzipSync(await buffer(packed));
}

/** Returns why the pod of a build did not complete in time, according to its status; pure. */
export function explainStart(pod: V1Pod | undefined, namespace: string): string {
  const events = `\`kubectl get events -n ${namespace}\` says why`;
  if (!pod)
    return `The cluster makes no pods for builds: ${events}; often it is Pod Security, a quota, or a class of placement.builds that does not exist.`;
  const scheduled = pod.status?.conditions?.find(({ type }) => type === "PodScheduled");
  if (scheduled?.status === "False")
    return `No node takes the pods of builds: ${scheduled.message ?? scheduled.reason}. See placement.builds and placement.arch.`;
  const state = pod.status?.containerStatuses?.[0]?.state;
  if (state?.running) return "The trial build took too long: its base image or its registry may be slow.";
  const { reason = pod.status?.phase, message } = state?.waiting ?? {};
  if (message) return `The pods of builds do not start: ${reason}: ${message}`;
  const needs = "User namespaces need containerd 2, runc 1.2 and Linux 6.3 on the nodes.";
  return `The pods of builds do not start (${reason}): ${events}.${pod.spec?.hostUsers === false ? ` ${needs}` : ""}`;
}

if (import.meta.main) {
  const config = readConfig(process.env, { ...jobBuilderFields, ...placementFields });
  const log = createLog("trial-build", "warn");
  const print = (line: string) => void process.stdout.write(`${line}\n`);
  try {
    await tryBuild({ kube: connectKube(), log, ...jobBuilderOptions(config) }, print);
    print("Builds work on this cluster.");
  } catch (error) {
    print(`Builds do not work on this cluster. ${(error as Error).message}`);
    process.exitCode = 1;
  }
}
