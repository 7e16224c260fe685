import { join } from "node:path";
import { run } from "./run.ts";
import { folders, registry, runtimeDir } from "./settings.ts";

const manifests = [
  "application/vnd.oci.image.manifest.v1+json",
  "application/vnd.docker.distribution.manifest.v2+json",
].join(", ");

/** Whether the cluster's registry has an image, named `name:tag`. */
export async function isPushed(image: string): Promise<boolean> {
  const [name, tag] = image.split(":");
  const answer = await fetch(`http://${registry.push}/v2/${name}/manifests/${tag}`, {
    method: "HEAD",
    headers: { accept: manifests },
  });
  return answer.ok;
}

/** buildah with a store of its own; it needs no daemon, no user namespace and no other program. */
export function buildah(args: string[], cwd?: string): Promise<string> {
  const store = ["--root", join(folders.buildah, "root"), "--runroot", join(runtimeDir, "buildah")];
  const env = { ...process.env, BUILDAH_ISOLATION: "chroot" };
  return run("buildah", [...store, "--storage-driver", "overlay", ...args], { cwd, env });
}

/** Build an image from the Dockerfile in a folder and push it under each tag. */
export async function buildAndPush(name: string, tags: string[], context: string): Promise<void> {
  const local = `${registry.push}/${name}:${tags[0]}`;
  await buildah(["bud", "-q", "--tls-verify=false", "-t", local, "."], context);
  for (const tag of tags) {
    await buildah(["push", "-q", "--tls-verify=false", local, `docker://${registry.push}/${name}:${tag}`]);
  }
}
