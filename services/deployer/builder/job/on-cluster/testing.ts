import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { connect } from "node:net";
import { gunzipSync } from "node:zlib";
import type { V1NetworkPolicy } from "@kubernetes/client-node";
import { inject } from "vitest";
import type { BuilderHarness } from "../../../../../test/contracts/ports/builder/harness.ts";
import { startGitServer } from "../../../../../test/support/servers/git-server.ts";
import { findS3Server, startS3Server } from "../../../../../test/support/servers/s3-server.ts";
import { connectKube } from "../../../kube/client.ts";
import { Job, Namespace, NetworkPolicy, Pod, Secret } from "../../../kube/kinds.ts";
import { managed, selector } from "../../../kube/names.ts";
import { createS3Store } from "../../../store/s3/adapter.ts";
import { imageRef } from "../../../terms/artifact.ts";
import { createJobBuilder, type JobBuilderOptions } from "../adapter.ts";
import { buildLabels } from "../job-manifest.ts";
import { imageTag } from "../job-request.ts";
import { connectRegistry } from "../registry/registry.ts";
import { addressOf, get, PORT, podOf } from "./testing-pods.ts";

/** A seccomp profile on the node of the throw-away cluster. */
const PROFILE = "build.json";

export type ClusterHarness = Awaited<ReturnType<typeof openCluster>>;

const silent = { info() {}, warn() {}, error: console.error };

/**
 * Opens a new build namespace with the chart's network policy, and an S3 server and a git server on this machine. Images
 * go to a path of their own in the cluster's registry.
 */
export async function openCluster(changes: Partial<JobBuilderOptions> = {}) {
  const kube = connectKube();
  const images = inject("clusterImages");
  const [registryHost = "", registryOfNodes] = [images.nodeToBuildFrom, images.builder].map(hostOf);
  const host = await addressTowards(registryHost);
  const id = randomBytes(4).toString("hex");
  const namespace = `b-builder-${id}`;
  const s3 = await startS3Server(findS3Server() ?? "versitygw", host);
  const git = await startGitServer(host);
  const { endpoint, accessKey, secretKey } = s3;
  const place = { bucket: "builds", region: "us-east-1", log: silent };
  const store = createS3Store({ endpoint, accessKey, secretKey, ...place });
  await store.start();
  await kube.apply(Namespace, { metadata: { name: namespace, labels: managed } });
  await kube.apply(NetworkPolicy, closed(namespace, host, registryHost));
  const bundle = process.env.NODE_EXTRA_CA_CERTS;
  const extraCaBundle = bundle && "ca";
  if (bundle) {
    const kind = { apiVersion: "v1", kind: "ConfigMap", plural: "configmaps" };
    const data = { "ca.crt": readFileSync(bundle, "utf8") };
    await kube.create(kind, { metadata: { name: "ca", namespace }, data } as never);
  }
  const registry = {
    push: `${registryHost}/berth-${id}`,
    pull: `${registryOfNodes}/berth-${id}`,
    insecure: true,
  };
  const options: JobBuilderOptions = {
    kube,
    namespace,
    image: images.builder,
    seccompProfile: PROFILE,
    userNamespaces: false,
    resources: {
      requests: { cpu: "100m", memory: "128Mi" },
      limits: { cpu: "2", memory: "2Gi", "ephemeral-storage": "5Gi" },
    },
    ...(extraCaBundle && { extraCaBundle }),
    store,
    registry,
    baseImages: {
      node: images.nodeToBuildFrom,
      python: images.python,
      go: images.nodeToBuildFrom,
      static: images.nodeToBuildFrom,
    },
    variables: packageRegistries(),
    log: silent,
    ...changes,
  };
  const builder = createJobBuilder(options);
  const ask: BuilderHarness["ask"] = async (result, path, env) => {
    const name = `ask-${randomBytes(4).toString("hex")}`;
    await kube.create(Pod, podOf(namespace, name, imageRef(result.artifact) ?? "", env));
    try {
      const ip = await addressOf(() => kube.get(Pod, name, namespace));
      return await get(`http://${ip}:${PORT}${path}`);
    } finally {
      await kube.remove(Pod, name, namespace, { gracePeriodSeconds: 0 });
    }
  };
  return {
    kube,
    namespace,
    options,
    builder,
    store,
    git,
    ask,
    /** Returns a builder for the same cluster, as of another process. */
    another: () => createJobBuilder(options),
    withOptions: (other: Partial<JobBuilderOptions>) => createJobBuilder({ ...options, ...other }),
    /** Returns an image's configuration and the content of its last layer. */
    async blobsOf(ref: string) {
      const [, path, digest] = /^[^/]+\/(.+)@(.+)$/.exec(ref) ?? [];
      const blob = (of: string) => fetch(`http://${registryHost}/v2/${path}/blobs/${of}`);
      const accept = "application/vnd.oci.image.manifest.v1+json";
      const url = `http://${registryHost}/v2/${path}/manifests/${digest}`;
      const manifest = (await (await fetch(url, { headers: { accept } })).json()) as {
        config: { digest: string };
        layers: { digest: string }[];
      };
      const config = (await (await blob(manifest.config.digest)).json()) as { config: object };
      const own = manifest.layers.slice(-1);
      const layers = await Promise.all(
        own.map(async (layer) => gunzipSync(Buffer.from(await (await blob(layer.digest)).arrayBuffer()))),
      );
      return { config, layers: Buffer.concat(layers) };
    },
    async remains(buildId: string): Promise<string[]> {
      const labels = selector(buildLabels(buildId));
      const found: string[] = [];
      for (const kind of [Job, Pod, Secret])
        for (const { metadata } of (await kube.list(kind as typeof Pod, { namespace, labels })).items)
          found.push(`${kind.kind} ${metadata?.name}`);
      const image = await connectRegistry(registry).find(imageTag(registry.push, { buildId }));
      return image ? [...found, `image ${image.digest}`] : found;
    },
    async close() {
      await kube.remove(Namespace, namespace);
      await Promise.all([git.close(), s3.close()]);
    },
  };
}

const hostOf = (image: string) => image.split("/")[0];

/** Returns this machine's address as the cluster's registry, and therefore its builds, reach it. */
async function addressTowards(server: string): Promise<string> {
  const [host, port] = server.split(":");
  const socket = connect(Number(port), host);
  await once(socket, "connect");
  const { localAddress = "" } = socket;
  socket.destroy();
  return localAddress;
}

/** Returns the variables by which build steps find this machine's package registries. */
function packageRegistries(): Record<string, string> {
  const names = ["npm_config_registry", "PIP_INDEX_URL", "GOPROXY", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"];
  return Object.fromEntries(names.flatMap((name) => (process.env[name] ? [[name, process.env[name]]] : [])));
}

/** Lets builds reach this machine's servers, the registry, DNS and addresses outside the cluster only. */
function closed(namespace: string, host: string, registry: string) {
  const [registryAddress, registryPort] = registry.split(":");
  const rules: V1NetworkPolicy["spec"] = {
    podSelector: { matchLabels: buildSelector },
    policyTypes: ["Ingress", "Egress"],
    egress: [
      { ports: [53].flatMap((port) => ["UDP", "TCP"].map((protocol) => ({ port, protocol }))) },
      { to: [{ ipBlock: { cidr: `${host}/32` } }] },
      {
        to: [{ ipBlock: { cidr: `${registryAddress}/32` } }],
        ports: [{ port: Number(registryPort), protocol: "TCP" }],
      },
      { to: [{ ipBlock: { cidr: "0.0.0.0/0", except: ["10.0.0.0/8"] } }] },
    ],
  };
  return { metadata: { name: "builds", namespace }, spec: rules };
}

const buildSelector = { "berth.dev/kind": "build" };
