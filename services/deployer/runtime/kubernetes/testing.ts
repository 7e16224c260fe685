import { randomBytes } from "node:crypto";
import { request } from "node:http";
import { setTimeout as delay } from "node:timers/promises";
import type { RuntimeHarness } from "../../../../test/ports/runtime.ts";
import { connectKube, isStatus, type Kube } from "../../kube/client.ts";
import { Namespace } from "../../kube/kinds.ts";
import { managed, selector } from "../../kube/names.ts";
import { readPodLog } from "../../kube/pod-log.ts";
import { imageArtifact } from "../port.ts";
import { createEnvironments } from "./environments.ts";
import type { KubernetesRuntimeOptions } from "./options.ts";
import { createKubernetesRuntime, type KubernetesRuntime } from "./runtime.ts";

/** Where the cluster of the tests is reached; `deploy/cluster` says the same. */
const INGRESS = { host: process.env.CLUSTER_INGRESS_HOST ?? "10.99.0.1", port: 80 };
const NODE_IMAGE = process.env.CLUSTER_NODE_IMAGE ?? "registry.local:5000/node:1";

export type Cluster = RuntimeHarness & {
  kube: Kube;
  runtime: KubernetesRuntime;
  options: KubernetesRuntimeOptions;
  /** Another process's, for the same installation. */
  another: (changes?: Partial<KubernetesRuntimeOptions>) => Promise<KubernetesRuntime>;
};

/** A runtime of an installation of its own on the cluster of KUBECONFIG; `close` removes all that it made. */
export async function openCluster(name: string): Promise<Cluster> {
  const kube = connectKube();
  const prefix = `b-runtime-${name}-${randomBytes(3).toString("hex")}`;
  const claimsNamespace = `${prefix}-claims`;
  await kube.apply(Namespace, { metadata: { name: claimsNamespace } });
  const options: KubernetesRuntimeOptions = {
    kube,
    logger: { info() {}, warn: console.warn, error: console.error },
    namespacePrefix: prefix,
    claimsNamespace,
    apps: {
      domain: `${prefix}.test`,
      scheme: "http",
      drainSeconds: 3,
      graceSeconds: 3,
      rolloutDeadlineMs: 300_000,
      reserved: { cpu: 0.1, memory: 0.25 },
    },
    ingress: { annotations: {} },
    network: {
      ingressNamespaceLabels: { "kubernetes.io/metadata.name": "ingress" },
      ingressFromCidrs: [],
      egressExceptCidrs: ["10.0.0.0/8"],
    },
    quota: { pods: "50" },
    compareMs: 1_000,
  };
  const stops: (() => Promise<void>)[] = [];
  async function another(changes: Partial<KubernetesRuntimeOptions> = {}): Promise<KubernetesRuntime> {
    const own = { ...options, ...changes };
    const environments = createEnvironments(own);
    const runtime = createKubernetesRuntime(own, environments);
    stops.push(async () => {
      await runtime.stop();
      await environments.stop();
    });
    await runtime.start();
    return runtime;
  }
  const runtime = await another();
  return {
    splitsStreams: await splitsStreams(kube, claimsNamespace),
    kube,
    options,
    runtime,
    another,
    artifact: imageArtifact(NODE_IMAGE),
    fetch: (url, path) => fetchByHost(new URL(url).host, path),
    async close() {
      for (const stop of stops) await stop();
      const ours = async () =>
        (await kube.page(Namespace, { labels: selector(managed) })).items.filter(({ metadata }) =>
          metadata?.name?.startsWith(`${prefix}-`),
        );
      for (const { metadata } of await ours()) await kube.remove(Namespace, metadata?.name ?? "");
      await kube.remove(Namespace, claimsNamespace);
      while ((await ours()).length > 0) await delay(200);
    },
  };
}

/** Whether the cluster has turned on what tells stdout and stderr apart: the API refuses to be asked otherwise. */
async function splitsStreams(kube: Kube, namespace: string): Promise<boolean> {
  const log = readPodLog(kube, { namespace, name: "none" }, { container: "app", stream: "Stderr" });
  return log.next().then(
    () => true,
    (error) => !isStatus(error, 422),
  );
}

function fetchByHost(host: string, path: string): Promise<{ status: number; body: string }> {
  return new Promise((resolve, reject) => {
    request({ ...INGRESS, path, headers: { host }, agent: false }, async (response) => {
      const chunks: Buffer[] = [];
      for await (const chunk of response) chunks.push(chunk);
      resolve({ status: response.statusCode ?? 0, body: Buffer.concat(chunks).toString() });
    })
      .on("error", reject)
      .end();
  });
}
