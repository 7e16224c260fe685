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

type Images = Partial<
  Record<"cloudnative-pg" | "plugin-barman-cloud" | "plugin-barman-cloud-sidecar", string>
>;

/**
 * Installs CloudNativePG and its plugin for backups to object stores, with these images of the registry, from the manifests
 * in their Go modules.
 */
export async function installCloudNativePg(images: Images): Promise<void> {
  const operator = await sourceOf("cloudnative-pg");
  const plugin = await sourceOf("plugin-barman-cloud");
  await timed(`Installed CloudNativePG ${operator.version} with Barman Cloud ${plugin.version}`, async () => {
    await installOperator(operator, images);
    await installPlugin(plugin, images);
    for (const deployment of [OPERATOR, PLUGIN])
      await kube(["rollout", "status", "-n", NAMESPACE, deployment, "--timeout=180s"]);
  });
}

type Source = { dir: string; version: string };

/** Returns the folder of a program's module, and its version. */
async function sourceOf(program: string): Promise<Source> {
  const cwd = join(import.meta.dirname, "go", program);
  const module = ["list", "-m", "-json", `github.com/cloudnative-pg/${program}`];
  const { Dir: dir, Version: version } = JSON.parse(await run("go", module, { cwd }));
  return { dir, version: version.slice(1) };
}

async function installOperator({ dir, version }: Source, images: Images): Promise<void> {
  const released = await readFile(join(dir, "releases", `cnpg-${version}.yaml`), "utf8");
  const name = "cloudnative-pg";
  await apply(
    released.replaceAll(`ghcr.io/cloudnative-pg/${name}:${version}`, `${registry.pull}/${images[name]}`),
  );
  // A tenth of a processor is for a cluster that nobody waits for.
  await kube(["set", "resources", "-n", NAMESPACE, OPERATOR, "--limits=cpu=1"]);
}

async function installPlugin({ dir }: Source, images: Images): Promise<void> {
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
  await apply(manifest);
}

/** Puts a certificate of the node's folder where the manifest of the plugin expects it. */
async function applyCertificate(name: string): Promise<void> {
  const files = [`--cert=${join(certificates, `${name}.crt`)}`, `--key=${join(certificates, `${name}.key`)}`];
  const secret = ["create", "secret", "tls", `${name}-tls`, "-n", NAMESPACE, ...files];
  await apply(await kube([...secret, "--dry-run=client", "-o", "yaml"]));
}
