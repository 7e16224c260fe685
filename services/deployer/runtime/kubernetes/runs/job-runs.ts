import { setTimeout as delay } from "node:timers/promises";
import type { V1Job, V1Pod, V1Secret } from "@kubernetes/client-node";
import { isStatus, type Sent } from "../../../kube/client.ts";
import { Job, Pod, Secret } from "../../../kube/kinds.ts";
import { label, labelsOf, namespaceOf, selector } from "../../../kube/names.ts";
import { readPodLog } from "../../../kube/pods/pod-log.ts";
import { resourcesOf } from "../../../kube/pods/resources.ts";
import { withExec } from "../../../shared/exec-command.ts";
import { RUN_OUTPUT_LINES, type Run, type RunPlace, type RunStatus, type Runs } from "../../port.ts";
import { RUN_OUT_OF_MEMORY } from "../../status-messages.ts";
import { CONTAINER } from "../app-pods.ts";
import type { Environments } from "../namespace/namespaces.ts";
import type { KubernetesRuntimeOptions } from "../options.ts";
import { imageOf, PULL_SECRET } from "../release/manifests.ts";

/** Longer than any process stalls: one that comes back finds that the Job of its run exists, and starts none. */
const KEPT_SECONDS = 3_600;
/** The removal of a run waits for it. */
const MOST_GRACE_SECONDS = 30;
const REMOVE_MS = 60_000;
const POLL_MS = 200;
/** Carries the name of the run. */
const RUN = label("run");

/** Runs commands as Jobs of a cluster, in the namespace of the environment. A Job's name is that of the run. */
export function createJobRuns(options: KubernetesRuntimeOptions, environments: Environments): Runs {
  const { kube } = options;
  const namespaceFor = ({ environmentId }: RunPlace) => namespaceOf(options.namespacePrefix, environmentId);

  async function newestPod(place: RunPlace): Promise<V1Pod | undefined> {
    const labels = selector({ [RUN]: place.name });
    const { items } = await kube.list(Pod, { namespace: namespaceFor(place), labels });
    return items.sort((one, other) => createdMs(other) - createdMs(one))[0];
  }

  return {
    async start(run) {
      const namespace = await environments.ensure(run.release);
      const created = await kube.create(Job, jobOf(run, namespace, options)).catch((error) => {
        if (!isStatus(error, 409)) throw error;
      });
      const job = created ?? (await kube.get(Job, run.name, namespace));
      if (!job) throw new Error(`the Job ${run.name} was removed as it was created`);
      // After the Job, which owns it: its pod waits for it.
      await kube.apply(Secret, secretOf(run, namespace, job));
    },
    async status(place) {
      const job = await kube.get(Job, place.name, namespaceFor(place));
      return job && toRunStatus(job, await newestPod(place));
    },
    async output(place, last) {
      const pod = await newestPod(place);
      const lines: string[] = [];
      if (!pod || (pod.status?.phase ?? "Pending") === "Pending") return lines;
      const where = { namespace: namespaceFor(place), name: pod.metadata?.name ?? "" };
      try {
        for await (const line of readPodLog(kube, where, { container: CONTAINER, tailLines: last })) {
          lines.push(line.slice(line.indexOf(" ") + 1));
          if (lines.length === RUN_OUTPUT_LINES) break;
        }
      } catch (error) {
        // The pod, or its node, is gone.
        if (!isStatus(error, 400, 404, 500)) throw error;
      }
      return lines;
    },
    async remove(place) {
      const namespace = namespaceFor(place);
      await kube.remove(Job, place.name, namespace, { propagationPolicy: "Foreground" });
      for (const until = Date.now() + REMOVE_MS; ; await delay(POLL_MS)) {
        if (!(await kube.get(Job, place.name, namespace)) && !(await newestPod(place))) return;
        if (Date.now() > until) throw new Error(`the Job ${place.name} was not removed in time`);
      }
    },
  };
}

/** Returns how a run stands, by its Job and its pod; pure. */
export function toRunStatus({ status }: V1Job, pod: V1Pod | undefined): RunStatus {
  const container = pod?.status?.containerStatuses?.[0];
  const ended = container?.state?.terminated;
  if (status?.conditions?.some((one) => one.type === "Complete" && one.status === "True"))
    return { state: "succeeded", exitCode: 0 };
  const failed = status?.conditions?.find((one) => one.type === "Failed" && one.status === "True");
  if (failed?.reason === "DeadlineExceeded")
    return { state: "failed", message: "It took too long and was ended." };
  if (failed && ended === undefined) return { state: "lost" };
  if (failed) {
    const memory = ended?.reason === "OOMKilled";
    return {
      state: "failed",
      exitCode: ended?.exitCode,
      ...(memory && { message: RUN_OUT_OF_MEMORY }),
    };
  }
  const why = container?.state?.waiting?.message;
  return { state: "running", ...(why !== undefined && { message: why }) };
}

function jobOf(
  { name, release, command = release.command, deadlineSeconds }: Run,
  namespace: string,
  options: KubernetesRuntimeOptions,
) {
  const { apps, registryAuth } = options;
  const { accountId, projectId, environmentId } = release;
  // Without the label of a service: no Service, no status and no usage of one counts the pod.
  const labels = { ...labelsOf({ accountId, projectId, environmentId, kind: "app" }), [RUN]: name };
  const job: Sent<V1Job> = {
    metadata: { name, namespace, labels },
    spec: {
      backoffLimit: 0,
      parallelism: 1,
      completions: 1,
      activeDeadlineSeconds: deadlineSeconds,
      ttlSecondsAfterFinished: KEPT_SECONDS,
      template: {
        metadata: { labels },
        spec: {
          ...apps.placementOf?.(release.tier),
          restartPolicy: "Never",
          automountServiceAccountToken: false,
          enableServiceLinks: false,
          terminationGracePeriodSeconds: Math.min(apps.graceSeconds, MOST_GRACE_SECONDS),
          securityContext: { runAsNonRoot: true, seccompProfile: { type: "RuntimeDefault" } },
          ...(registryAuth && { imagePullSecrets: [{ name: PULL_SECRET }] }),
          containers: [
            {
              name: CONTAINER,
              image: imageOf(release.artifact),
              ...(command !== undefined && { command: ["/bin/sh", "-c", withExec(command)] }),
              envFrom: [{ secretRef: { name } }],
              resources: resourcesOf(release.size, apps.reserved),
              securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ["ALL"] } },
            },
          ],
        },
      },
    },
  };
  return job;
}

function secretOf({ name, release }: Run, namespace: string, job: V1Job): Sent<V1Secret> {
  const { accountId, projectId, environmentId, env } = release;
  const uid = job.metadata?.uid ?? "";
  return {
    metadata: {
      name,
      namespace,
      labels: labelsOf({ accountId, projectId, environmentId }),
      ownerReferences: [{ apiVersion: "batch/v1", kind: "Job", name, uid, blockOwnerDeletion: false }],
    },
    type: "Opaque",
    data: Object.fromEntries(
      Object.entries(env).map(([key, value]) => [key, Buffer.from(value).toString("base64")]),
    ),
  };
}

const createdMs = ({ metadata }: V1Pod) => new Date(metadata?.creationTimestamp ?? 0).getTime();
