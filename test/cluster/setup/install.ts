import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import type { ProvidedContext } from "vitest";
import type { RunSettings } from "../../../deploy/cluster/run/run-settings.ts";
import { ACME_DNS_PORT, network } from "../../../deploy/cluster/settings.ts";
import { createS3Store } from "../../../services/deployer/store/s3/adapter.ts";
import { makeToken } from "../../../services/kit/crypto/bearer-token.ts";
import { selfSignedCertificate } from "../../support/servers/certificate.ts";
import { testDomain } from "./domain.ts";

export type Installed = {
  platform: NonNullable<ProvidedContext["platform"]>;
  uninstall: () => Promise<void>;
};

/** Tests that wait for mail listen here on this machine; others leave it unsent. */
const SMTP_PORT = 2525;

const chart = resolve(import.meta.dirname, "../../../helm/berth");

/** Installs this repository's chart with the images of the run into a new namespace; `uninstall` leaves nothing. */
export async function install(run: RunSettings, namespace: string): Promise<Installed> {
  const env = { ...process.env, KUBECONFIG: run.kubeconfig };
  const call = async (program: string, args: string[]) => {
    const { stdout } = await promisify(execFile)(program, args, { env, maxBuffer: 16 << 20 });
    return stdout;
  };
  const kubectl = (...args: string[]) => call(run.kubectl, args);
  const ownerToken = makeToken("pat");
  const release = namespace; // Cluster-wide objects are named after it.
  const { key, cert } = selfSignedCertificate(`*.${testDomain}`);
  const dir = await mkdtemp(join(tmpdir(), "berth-install-"));
  const uninstall = async () => {
    await call(run.helm, [
      "uninstall",
      release,
      "-n",
      namespace,
      "--ignore-not-found",
      "--wait",
      "--timeout=3m",
    ]);
    await kubectl("delete", "namespace", namespace, "--ignore-not-found", "--timeout=120s");
  };
  try {
    const secrets = join(dir, "secrets.json");
    const values = join(dir, "values.json");
    const items = [
      ownerSecret(namespace, ownerToken),
      // The chart looks for the certificate of each of its hosts in a Secret of its own.
      secret(namespace, "mail", { url: `smtp://${run.host}:${SMTP_PORT}` }),
      secret(namespace, "archive", {
        "access-key": run.objectStore.accessKey,
        "secret-key": run.objectStore.secretKey,
      }),
      ...["tls", "tls-object-store"].map((name) => tlsSecret(namespace, name, key, cert)),
    ];
    const list = { apiVersion: "v1", kind: "List", items };
    await writeFile(secrets, JSON.stringify(list), { mode: 0o600 });
    await writeFile(values, JSON.stringify(await valuesFor(run, namespace)));
    const archive = archiveFor(run, namespace);
    if (archive) await createS3Store({ ...run.objectStore, ...archive, log: quiet }).start();
    await kubectl("create", "namespace", namespace);
    await kubectl("apply", "-f", secrets);
    await call(run.helm, [
      "install",
      release,
      chart,
      "-n",
      namespace,
      "-f",
      values,
      "--wait",
      "--timeout=5m",
    ]);
  } catch (error) {
    const reasons = await explain(kubectl, namespace).catch(String);
    await uninstall().catch(() => {});
    throw new Error(`The chart could not be installed.\n${reasons}`, { cause: error });
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
  const origin = originOf(namespace);
  return {
    platform: {
      origin,
      ownerToken,
      appsHost: run.ingress.address,
      namespace,
      certificate: cert,
      smtp: { host: run.host, port: SMTP_PORT },
    },
    uninstall,
  };
}

const quiet = { info() {}, warn() {} };

/** Returns where PostgreSQL addons have archives; undefined where the cluster has no operator for them. */
function archiveFor(run: RunSettings, namespace: string) {
  const { endpoint } = run.objectStore;
  return run.images["cloudnative-pg"] && { endpoint, bucket: `${namespace}-archive`, region: "us-east-1" };
}

const originOf = (host: string) => `https://${host}.${testDomain}`;

/** Returns why pods are not ready: their states, warnings, and the last lines of each. */
async function explain(kubectl: (...args: string[]) => Promise<string>, namespace: string): Promise<string> {
  const inIt = ["-n", namespace];
  const pods = await kubectl("get", "pods", ...inIt);
  const warnings = await kubectl("get", "events", ...inIt, "--field-selector=type=Warning");
  const unready = pods.split("\n").filter((line) => / 0\/\d /.test(line) && !line.includes("Completed"));
  const logs = unready.map(async (line) => {
    const name = line.split(" ")[0]!;
    const all = ["logs", ...inIt, name, "--all-containers", "--tail=10", "--prefix"];
    return (await kubectl(...all, "--previous").catch(() => "")) || kubectl(...all).catch(() => "");
  });
  return [pods, warnings, ...(await Promise.all(logs))].join("\n");
}

function ownerSecret(namespace: string, token: string) {
  return secret(namespace, "owner", { token, password: randomBytes(18).toString("base64url") });
}

function tlsSecret(namespace: string, name: string, key: string, cert: string) {
  const type = "kubernetes.io/tls";
  return { ...secret(namespace, name, { "tls.key": key, "tls.crt": cert }), type };
}

function secret(namespace: string, name: string, stringData: Record<string, string>) {
  return { apiVersion: "v1", kind: "Secret", metadata: { name, namespace }, stringData };
}

/** Returns values for this cluster and a small machine; everything else is the chart's default. */
export async function valuesFor(run: RunSettings, namespace: string) {
  const image = (name: keyof RunSettings["images"], registry = run.registry.pull) => {
    const [path, tag] = run.images[name]!.split(":");
    return { repository: `${registry}/${path}`, tag };
  };
  const whole = (name: keyof RunSettings["images"], registry: string) => `${registry}/${run.images[name]}`;
  const className = run.ingress.className;
  const small = { requests: { cpu: "10m", memory: "64Mi" } };
  const server = (name: keyof RunSettings["images"]) => ({
    server: { image: image(name), resources: small, storage: { size: "1Gi" } },
  });
  const archive = archiveFor(run, namespace);
  const [slim, python] = [whole("node-slim", run.registry.push), whole("python", run.registry.push)];
  return {
    image: image("platform"),
    publicUrl: originOf(namespace),
    ingress: { className, tlsSecret: "tls" },
    owner: { email: "owner@example.com", existingSecret: "owner" },
    rateLimits: { enabled: false },
    smtp: { from: "Berth <berth@example.com>", existingSecret: "mail" },
    // Its nodes have the disk of this machine.
    capacityNotices: { enabled: false },
    defaults: { resources: small },
    database: server("postgres"),
    nats: server("nats"),
    objectStore: { ...server("versitygw"), publicUrl: originOf(`${namespace}-objects`) },
    // The registry that also holds the builds' base images: a build may use plain HTTP with only one registry.
    registry: {
      ...server("registry"),
      bundled: false,
      push: `${run.registry.push}/${namespace}`,
      pull: `${run.registry.pull}/${namespace}`,
      insecure: true,
    },
    // DNS is no pod there, but a program on the node.
    networkPolicy: { dnsPeers: [{ ipBlock: { cidr: `${network.node}/32` } }] },
    uninstall: { removeApps: true },
    apps: {
      domain: `${namespace}-apps.${testDomain}`,
      scheme: "http",
      ingress: { className },
      ...(run.images.acmesolver && {
        domains: { issuer: "acme", dnsServers: [`${run.host}:${ACME_DNS_PORT}`] },
      }),
      ingressNamespaceLabels: { "kubernetes.io/metadata.name": run.ingress.namespace },
      addons: {
        postgresImage: whole("postgres", run.registry.pull),
        redisImage: whole("redis", run.registry.pull),
        poolerImage: whole("pgbouncer", run.registry.pull),
        earlierImages: { postgres: [whole("postgres-15", run.registry.pull)], redis: [] },
        ...(archive && { postgresEngine: "auto", archive: { ...archive, existingSecret: "archive" } }),
        storageSize: "1Gi",
      },
    },
    builds: {
      image: image("builder"),
      baseImages: { node: slim, static: slim, python },
      ...(run.images.buildpacks && { buildpacks: { builder: whole("buildpacks", run.registry.push) } }),
      ...(run.ca && { extraCaBundle: await readFile(run.ca, "utf8") }),
      seccompProfile: "build.json",
      resources: { requests: { cpu: "50m", memory: "256Mi" } },
      egress: [
        { cidr: "0.0.0.0/0", except: ["10.0.0.0/8"], ports: [80, 443] },
        // The registry with base images, and test servers on this machine.
        { cidr: `${run.registry.push.split(":")[0]}/32`, ports: [Number(run.registry.push.split(":")[1])] },
        { cidr: `${run.host}/32`, ports: [] },
      ],
    },
  };
}
