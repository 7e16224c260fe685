import { execFile, execFileSync } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { homedir, tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import {
  type KubernetesObject,
  loadAllYaml,
  type V1ConfigMap,
  type V1PodSpec,
} from "@kubernetes/client-node";
import { type KubernetesConfig, kubernetesFields } from "../../../services/deployer/config.ts";
import { readConfig } from "../../../services/kit/process/config.ts";
import { type KubeApi, startKubeApi } from "../../support/kube-api/server.ts";

export const chartFolder = resolve(import.meta.dirname, "../../../helm/berth");
export const ciValues = (name: string) => join(chartFolder, "ci", `${name}-values.yaml`);

/** The helm program: `HELM`, the one on the PATH, or the one that `npm run cluster:up` has built. */
export const helmProgram: string | undefined = findHelm();

function findHelm(): string | undefined {
  if (process.env.HELM) return process.env.HELM;
  try {
    execFileSync("helm", ["version"], { stdio: "ignore" });
    return "helm";
  } catch {
    const folder = join(
      process.env.BERTH_CLUSTER_DIR ?? join(homedir(), ".cache", "berth", "cluster"),
      "bin",
    );
    const built = existsSync(folder) && readdirSync(folder).find((name) => /^helm-[0-9a-f]{16}$/.test(name));
    return built ? join(folder, built) : undefined;
  }
}

/** Runs helm and returns its output; rejects with what it printed to stderr. */
export async function helm(...args: string[]): Promise<string> {
  const options = { maxBuffer: 64 * 1024 * 1024, timeout: 600_000 };
  return (await promisify(execFile)(helmProgram!, args, options)).stdout;
}

export type Manifest = KubernetesObject & Record<string, never>;

/** Renders the chart with the values of a file in `ci/`, settings for `--set-json`, and more arguments of helm's. */
export const render = (values: string, set: Record<string, string> = {}, ...more: string[]) =>
  renderAs({ release: "berth", namespace: "platform" }, values, set, ...more);

/** No Secrets of the operator's own, for `renderInstall`: the chart generates all that it can. */
export const GENERATED = Object.fromEntries(
  ["keys", "owner", "database", "database.admin", "nats", "objectStore", "registry"].map((part) => [
    `${part}.existingSecret`,
    '""',
  ]),
);

/**
 * Renders the chart as `helm install` does it on a cluster, where the chart generates its Secrets; `there` are objects that
 * its namespace has already.
 */
export async function renderInstall(
  values: string,
  set: Record<string, string> = {},
  there: KubernetesObject[] = [],
): Promise<Manifest[]> {
  const api = await startKubeApi();
  const folder = await mkdtemp(join(tmpdir(), "berth-chart-"));
  try {
    const kubeconfig = join(folder, "kubeconfig");
    await writeFile(kubeconfig, api.config.exportConfig());
    for (const name of ["default", "platform", "ingress-nginx"]) putNamespace(api, name);
    const asking = ["--dry-run=server", "--kubeconfig", kubeconfig];
    for (const object of there) {
      const at = { apiVersion: object.apiVersion!, plural: `${object.kind!.toLowerCase()}s` };
      api.store.put({ ...at, namespace: "platform" }, object as Parameters<typeof api.store.put>[1]);
    }
    return await render(values, set, ...asking);
  } finally {
    await api.stop();
    await rm(folder, { recursive: true, force: true });
  }
}

/** Adds a namespace with the label of its name, as every cluster gives it. */
export function putNamespace(api: KubeApi, name: string): void {
  const metadata = { name, labels: { "kubernetes.io/metadata.name": name } };
  const about = { apiVersion: "v1", kind: "Namespace" };
  api.store.put({ apiVersion: "v1", plural: "namespaces" }, { ...about, metadata });
}

/** Renders the chart as another release. */
export async function renderAs(
  { release, namespace }: { release: string; namespace: string },
  values: string,
  set: Record<string, string> = {},
  ...more: string[]
): Promise<Manifest[]> {
  const settings = Object.entries(set).flatMap(([key, value]) => ["--set-json", `${key}=${value}`]);
  const text = await helm(
    ...["template", release, chartFolder, "--namespace", namespace, "--kube-version", "1.36.0"],
    ...["--api-versions", "gateway.networking.k8s.io/v1", "-f", ciValues(values), ...more, ...settings],
  );
  return (loadAllYaml(text) as Manifest[]).filter(Boolean);
}

/** Returns the data of a ConfigMap. */
export function configOf(manifests: Manifest[], name: string): Record<string, string> {
  return ofKind<V1ConfigMap>(manifests, "ConfigMap").find((one) => one.metadata!.name === name)!.data!;
}

/** Returns the objects of a kind. */
export function ofKind<T extends KubernetesObject>(manifests: Manifest[], kind: string): T[] {
  return manifests.filter((one) => one.kind === kind) as unknown as T[];
}

/** Returns the specification of every pod that the objects create, with the name of the object. */
export function podsOf(manifests: Manifest[]): { name: string; spec: V1PodSpec }[] {
  return manifests.flatMap((one) => {
    const { kind, metadata, spec } = one as unknown as {
      kind: string;
      metadata: { name: string };
      spec?: { template?: { spec: V1PodSpec }; jobTemplate?: { spec: { template: { spec: V1PodSpec } } } };
    };
    const found =
      kind === "Pod" ? (spec as V1PodSpec) : (spec?.template ?? spec?.jobTemplate?.spec.template)?.spec;
    return found ? [{ name: `${kind}/${metadata.name}`, spec: found }] : [];
  });
}

/** Returns the configuration that the deployer reads from what was rendered. */
export function readDeployerConfig(manifests: Manifest[]): KubernetesConfig {
  const key = Buffer.alloc(32).toString("base64");
  const secrets = { NATS_URL: "nats://n", S3_ACCESS_KEY: "a", S3_SECRET_KEY: "s", INTERNAL_KEYS: key };
  return readConfig(
    { ...configOf(manifests, "berth-deployer"), ...secrets, SECRET_KEYS: key },
    kubernetesFields,
  );
}
