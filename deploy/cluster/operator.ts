import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { run, timed } from "./commands.ts";
import { programLinks } from "./node/node-files.ts";
import { kubeconfig, registry } from "./settings.ts";

const NAMESPACE = "cnpg-system";
const DEPLOYMENT = "deployment/cnpg-controller-manager";

const kube = (args: string[], input?: string) =>
  run(join(programLinks, "kubectl"), ["--kubeconfig", kubeconfig, ...args], { input });

/** Installs CloudNativePG with this image of the registry, from the manifest that its Go module has of each release. */
export async function installCloudNativePg(image: string): Promise<void> {
  const cwd = join(import.meta.dirname, "go", "cloudnative-pg");
  const module = ["list", "-m", "-json", "github.com/cloudnative-pg/cloudnative-pg"];
  const { Dir: dir, Version: version } = JSON.parse(await run("go", module, { cwd }));
  const number = version.slice(1);
  const released = await readFile(join(dir, "releases", `cnpg-${number}.yaml`), "utf8");
  const manifest = released.replaceAll(
    `ghcr.io/cloudnative-pg/cloudnative-pg:${number}`,
    `${registry.pull}/${image}`,
  );
  await timed(`Installed CloudNativePG ${number}`, async () => {
    await kube(["apply", "--server-side", "--force-conflicts", "-f", "-"], manifest);
    // A tenth of a processor is for a cluster that nobody waits for.
    await kube(["set", "resources", "-n", NAMESPACE, DEPLOYMENT, "--limits=cpu=1"]);
    await kube(["rollout", "status", "-n", NAMESPACE, DEPLOYMENT, "--timeout=180s"]);
  });
}
