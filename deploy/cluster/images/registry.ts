import { copyFile, link, mkdtemp, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { buildah as buildahEngine, type Engine } from "../../images/engine.ts";
import { timed } from "../commands.ts";
import { folders, registry, runtimeDir } from "../settings.ts";

const manifests = [
  "application/vnd.oci.image.manifest.v1+json",
  "application/vnd.docker.distribution.manifest.v2+json",
].join(", ");

/** Returns whether the cluster's registry has an image, named `name:tag`. */
export async function isPushed(image: string): Promise<boolean> {
  const [name, tag] = image.split(":");
  const answer = await fetch(`http://${registry.push}/v2/${name}/manifests/${tag}`, {
    method: "HEAD",
    headers: { accept: manifests },
  });
  return answer.ok;
}

/** buildah with its own store. */
export const engine: Engine = buildahEngine({
  insecure: true,
  quiet: true,
  store: [
    ...["--root", join(folders.buildah, "root"), "--runroot", join(runtimeDir, "buildah")],
    ...["--storage-driver", "overlay"],
  ],
});

export type Recipe = {
  name: string;
  /** Changes with the content of the image. */
  tag: string;
  dockerfile: string;
  /** The files it copies, by their names in the build context. */
  files?: Record<string, string>;
  args?: Record<string, string>;
};

/** Builds an image and pushes it with its tag and as `:1`, unless the registry has it. Returns `name:tag`. */
export async function push({ name, tag, dockerfile, files = {}, args = {} }: Recipe): Promise<string> {
  if ((await isPushed(`${name}:${tag}`)) && (await isPushed(`${name}:1`))) return `${name}:${tag}`;
  const context = await mkdtemp(join(folders.images, "context-"));
  try {
    for (const [to, path] of Object.entries(files)) {
      await link(path, join(context, to)).catch(() => copyFile(path, join(context, to)));
    }
    await writeFile(join(context, "Dockerfile"), dockerfile);
    await timed(`Pushed ${registry.pull}/${name}:${tag}`, async () => {
      for (const as of [tag, "1"]) {
        const image = `${registry.push}/${name}:${as}`;
        await engine.build({
          image,
          dockerfile: join(context, "Dockerfile"),
          context,
          args,
          labels: {},
          secrets: {},
        });
        await engine.push(image);
      }
    });
  } finally {
    await rm(context, { recursive: true, force: true });
  }
  return `${name}:${tag}`;
}
