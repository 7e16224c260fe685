import { execFile, execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { request } from "node:http";
import { type AddressInfo, createServer } from "node:net";
import { resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import { KubeConfig } from "@kubernetes/client-node";
import type { RuntimeHarness } from "../../../../test/contracts/ports/runtime/harness.ts";
import { readRun } from "../../../../test/support/cluster-run.ts";
import { connectKube, isStatus, type Kube } from "../../kube/client.ts";
import { Namespace } from "../../kube/kinds.ts";
import { managed, selector } from "../../kube/names.ts";
import { readPodLog } from "../../kube/pods/pod-log.ts";
import { imageArtifact } from "../../terms/artifact.ts";
import { createEnvironments } from "./namespace/namespaces.ts";
import type { KubernetesRuntimeOptions } from "./options.ts";
import { createKubernetesRuntime, type KubernetesRuntime } from "./runtime.ts";

/** Of the account of `env_3`: 16 GiB with the room of four times that much. */
const SMALL_PLAN = { most: { pods: 4, cpu: 4_000, memory: 4_096, storage: 4_096 }, openPorts: [587] };

const SECRETS = ["keys", "owner", "database", "database.admin", "nats", "objectStore", "registry"];
const chart = resolve(import.meta.dirname, "../../../../helm/berth");

export type Cluster = RuntimeHarness & {
  /** With all rights. */
  kube: Kube;
  runtime: KubernetesRuntime;
  options: KubernetesRuntimeOptions;
  /** The address at which apps reach this machine, outside the cluster. */
  outside: string;
  /** Another process's, for the same installation. */
  another: (changes?: Partial<KubernetesRuntimeOptions>) => Promise<KubernetesRuntime>;
};

/**
 * A runtime on the cluster of the test run, as an installation of its own, with the rights that the chart gives
 * the deployer and no others. `close` removes all that it made.
 */
export async function openCluster(name: string): Promise<Cluster> {
  const run = await readRun();
  const kube = connectKube();
  const prefix = `runtime-${name}-${randomBytes(3).toString("hex")}`;
  const home = `${prefix}-home`;
  await kube.apply(Namespace, { metadata: { name: home } });
  const rights = await giveRights(run, prefix, home);
  const options: KubernetesRuntimeOptions = {
    kube: connectKube(rights.config),
    log: { info() {}, warn: console.warn, error: console.error },
    namespacePrefix: prefix,
    watch: "cluster",
    claimsNamespace: home,
    environmentRole: rights.environmentRole,
    serviceAccount: { namespace: home, name: rights.account },
    apps: {
      domain: `${prefix}.test`,
      scheme: "http",
      drainSeconds: 3,
      // What the tests run has nothing to finish once it is asked to end.
      graceSeconds: 1,
      rolloutDeadlineMs: 300_000,
      reserved: { cpu: 0.02, memory: 0.25, storage: 0.01 },
    },
    ingress: { enabled: true, className: run.ingress.className, annotations: {} },
    hosts: {
      redirectAnnotations: {
        "nginx.ingress.kubernetes.io/permanent-redirect": "https://{target}$request_uri",
        "nginx.ingress.kubernetes.io/permanent-redirect-code": "308",
      },
    },
    network: {
      ingressNamespaceLabels: [{ "kubernetes.io/metadata.name": run.ingress.namespace }],
      ingressFromCidrs: [],
      egressExceptCidrs: [run.network.pods, run.network.services, `${run.network.node}/32`],
      portRanges: true,
      metricsPeers: [],
      closedPorts: [25, 587],
      dnsPorts: [53],
      dnsPeers: [{ ipBlock: { cidr: `${run.network.node}/32` } }],
    },
    quota: { pods: "50" },
    plansOf: async () => new Map([["env_3", SMALL_PLAN]]),
    compareMs: 1_000,
  };
  const stops: (() => Promise<void>)[] = [];
  async function another(changes: Partial<KubernetesRuntimeOptions> = {}): Promise<KubernetesRuntime> {
    const own = { ...options, ...changes };
    const environments = createEnvironments(own);
    const runtime = createKubernetesRuntime(own, environments);
    stops.push(runtime.stop);
    await runtime.start();
    return runtime;
  }
  const runtime = await another();
  return {
    splitsStreams: await splitsStreams(kube, home),
    kube,
    options,
    runtime,
    outside: run.network.host,
    another,
    artifact: imageArtifact(`${run.registry.pull}/${run.images.node}`),
    fetch: (url, path) => fetchByHost(run.ingress.address, new URL(url).host, path),
    async close() {
      for (const stop of stops) await stop();
      const ours = async () =>
        (await kube.list(Namespace, { labels: selector(managed) })).items.filter(({ metadata }) =>
          metadata?.name?.startsWith(`${prefix}-env-`),
        );
      for (const { metadata } of await ours()) await kube.remove(Namespace, metadata?.name ?? "");
      while ((await ours()).length > 0) await delay(200);
      rights.take();
      await kube.remove(Namespace, home);
    },
  };
}

/** Tries each of the addresses again and again, and says each time what came of it, in one line. */
export const reaching = (targets: string[]) => `
  const { connect } = require("node:net");
  const attempt = (target) => new Promise((resolve) => {
    const [host, port] = target.split(" ");
    const socket = connect({ host, port: Number(port), timeout: 2000 });
    for (const [event, word] of [["connect", "reached"], ["timeout", "not reached"], ["error", "not reached"]])
      socket.once(event, () => { socket.destroy(); resolve(word); });
  });
  (async () => {
    for (;;) {
      console.log(JSON.stringify(await Promise.all(${JSON.stringify(targets)}.map(attempt))));
      await new Promise((resolve) => setTimeout(resolve, 500));
    }
  })();`;

/** Accepts connections at these ports, a free one for 0, for as long as the tests run; returns the ports. */
export function listenAt(host: string, ports: number[]): Promise<number[]> {
  return Promise.all(
    ports.map(async (port) => {
      const server = createServer((socket) => socket.destroy()).unref();
      await once(server.listen(port, host), "listening");
      return (server.address() as AddressInfo).port;
    }),
  );
}

type Run = Awaited<ReturnType<typeof readRun>>;

/** What the chart gives the deployer of an installation in `home`; and a connection as that. */
async function giveRights(run: Run, prefix: string, home: string) {
  const values = Object.entries({
    "image.repository": "none",
    "builds.image.repository": "none",
    "owner.email": "owner@example.test",
    publicUrl: "http://berth.example.test",
    "apps.domain": "example.test",
    "apps.namespacePrefix": prefix,
    "builds.namespace": home,
    "builds.createNamespace": "false",
    "apps.httpRoute.enabled": "true",
    "apps.httpRoute.parentRefs[0].name": "berth",
    "apps.httpRoute.parentRefs[0].namespace": home,
    // Rendered without the cluster, the chart generates none.
    ...Object.fromEntries(SECRETS.map((part) => [`${part}.existingSecret`, "none"])),
  }).map(([key, value]) => `--set=${key}=${value}`);
  const shown = ["rbac", "admission"].map((file) => `--show-only=templates/${file}.yaml`);
  const template = ["template", prefix, chart, "-n", home, "--validate=false", ...values, ...shown];
  const { stdout } = await promisify(execFile)(run.helm, template);
  const kubectl = (args: string[], input?: string) =>
    execFileSync(run.kubectl, args, { input, encoding: "utf8", stdio: ["pipe", "pipe", "inherit"] });
  kubectl(["apply", "-f", "-"], stdout);
  const account = kubectl(["get", "serviceaccounts", "-n", home, "-o", "name"])
    .split("\n")
    .map((line) => line.replace("serviceaccount/", ""))
    .find((one) => one.endsWith("deployer"));
  if (!account) throw new Error("the chart has no account for the deployer");
  const token = kubectl(["create", "token", account, "-n", home, "--duration=2h"]).trim();
  const roles = kubectl(["get", "clusterroles", "-o", "name"]).split("\n");
  const made = [...stdout.matchAll(/^kind: ClusterRole\nmetadata:\n {2}name: (\S+)/gm)].map(
    ([, one]) => one ?? "",
  );
  const environmentRole = made.find((one) => one.endsWith("environment"));
  if (!environmentRole || !roles.some((one) => one.endsWith(`/${environmentRole}`)))
    throw new Error("the chart has no role for environments");
  const admin = new KubeConfig();
  admin.loadFromDefault();
  const cluster = admin.getCurrentCluster();
  if (!cluster) throw new Error("KUBECONFIG names no cluster");
  const config = new KubeConfig();
  config.loadFromClusterAndUser(cluster, { name: account, token });
  return {
    config,
    account,
    environmentRole,
    take: () => kubectl(["delete", "-f", "-", "--wait=false"], stdout),
  };
}

/** Whether the cluster can distinguish stdout and stderr: otherwise its API refuses such a request. */
async function splitsStreams(kube: Kube, namespace: string): Promise<boolean> {
  const log = readPodLog(kube, { namespace, name: "none" }, { container: "app", stream: "Stderr" });
  return log.next().then(
    () => true,
    (error) => !isStatus(error, 422),
  );
}

function fetchByHost(ingress: string, host: string, path: string): Promise<{ status: number; body: string }> {
  return new Promise((resolve, reject) => {
    request({ host: ingress, path, headers: { host }, agent: false }, async (response) => {
      const chunks: Buffer[] = [];
      for await (const chunk of response) chunks.push(chunk);
      resolve({ status: response.statusCode ?? 0, body: Buffer.concat(chunks).toString() });
    })
      .on("error", reject)
      .end();
  });
}
