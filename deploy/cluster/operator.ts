import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { run, timed } from "./commands.ts";
import { certificates } from "./node/certificates.ts";
import { programLinks } from "./node/node-files.ts";
import { kubeconfig, registry } from "./settings.ts";

const NAMESPACE = "cnpg-system";
const OPERATOR = "deployment/cnpg-controller-manager";
const PLUGIN = "deployment/barman-cloud";

const kube = (args: string[], input?: string) =>
  run(join(programLinks, "kubectl"), ["--kubeconfig", kubeconfig, ...args], { input });
const apply = (manifest: string) =>
  kube(["apply", "--server-side", "--force-conflicts", "-f", "-"], manifest);

type Images = Partial<Record<Operator | "plugin-barman-cloud" | "plugin-barman-cloud-sidecar", string>>;
type Operator = "cloudnative-pg" | "cloudnative-pg-earlier";

/**
 * Installs CloudNativePG and its plugin for backups to object stores, with these images of the registry, from the manifests
 * in their Go modules.
 */
export async function installCloudNativePg(images: Images): Promise<void> {
  await installOperator(images);
  await installPlugin(images);
}

/** Installs a release of the operator in place of the one that is there, waits until it runs, and returns its version. */
export async function installOperator(images: Images, which: Operator = "cloudnative-pg"): Promise<string> {
  const { dir, version } = await sourceOf("cloudnative-pg", which);
  await timed(`Installed CloudNativePG ${version}`, async () => {
    const released = await readFile(join(dir, "releases", `cnpg-${version}.yaml`), "utf8");
    const image = `${registry.pull}/${images[which]}`;
    await apply(released.replaceAll(`ghcr.io/cloudnative-pg/cloudnative-pg:${version}`, image));
    // A tenth of a processor is for a cluster that nobody waits for.
    await kube(["set", "resources", "-n", NAMESPACE, OPERATOR, "--limits=cpu=1"]);
    await untilRolledOut(OPERATOR);
  });
  return version;
}

/** Sets whether an operator that starts from now on replaces the manager of each instance in place, not with its pod. */
export async function setInPlaceUpdates(on: boolean): Promise<void> {
  const name = "cnpg-controller-manager-config";
  if (!on) return void (await kube(["delete", "configmap", name, "-n", NAMESPACE, "--ignore-not-found"]));
  const data = { ENABLE_INSTANCE_MANAGER_INPLACE_UPDATES: "true" };
  const object = { apiVersion: "v1", kind: "ConfigMap", metadata: { name, namespace: NAMESPACE }, data };
  await apply(JSON.stringify(object));
}

const untilRolledOut = (deployment: string) =>
  kube(["rollout", "status", "-n", NAMESPACE, deployment, "--timeout=180s"]);

type Source = { dir: string; version: string };

/** Returns the folder of a program's module, and the version that the module in `folder` requires. */
async function sourceOf(program: string, folder = program): Promise<Source> {
  const cwd = join(import.meta.dirname, "go", folder);
  const module = ["list", "-m", "-json", `github.com/cloudnative-pg/${program}`];
  const { Dir: dir, Version: version } = JSON.parse(await run("go", module, { cwd }));
  return { dir, version: version.slice(1) };
}

async function installPlugin(images: Images): Promise<void> {
  const { dir, version } = await sourceOf("plugin-barman-cloud");
  for (const name of ["barman-cloud-server", "barman-cloud-client"]) await applyCertificate(name);
  const released = await readFile(join(dir, "manifest.yaml"), "utf8");
  const image = `${registry.pull}/${images["plugin-barman-cloud"]}`;
  const sidecar = `${registry.pull}/${images["plugin-barman-cloud-sidecar"]}`;
  const manifest = released
    .split(/^---$/m)
    // It asks cert-manager, which this cluster does not have, for the certificates.
    .filter((object) => !object.includes("\napiVersion: cert-manager.io/"))
    .join("---")
    .replace(/image: .*/, `image: ${image}`)
    .replace(/SIDECAR_IMAGE: \|(\n {4}.*)+/, `SIDECAR_IMAGE: ${Buffer.from(sidecar).toString("base64")}`);
  await timed(`Installed Barman Cloud ${version}`, async () => {
    await apply(manifest);
    await untilRolledOut(PLUGIN);
  });
}

/** Puts a certificate of the node's folder where the manifest of the plugin expects it. */
async function applyCertificate(name: string): Promise<void> {
  const files = [`--cert=${join(certificates, `${name}.crt`)}`, `--key=${join(certificates, `${name}.key`)}`];
  const secret = ["create", "secret", "tls", `${name}-tls`, "-n", NAMESPACE, ...files];
  await apply(await kube([...secret, "--dry-run=client", "-o", "yaml"]));
}
