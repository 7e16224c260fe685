import { copyFile, link, mkdtemp, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { buildah as buildahEngine, type Engine } from "../../images/engine.ts";
import { timed } from "../run/commands.ts";
import { folders, registry, runtimeDir } from "../settings.ts";

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

/** buildah with a store of its own. */
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
  /** Changes when what is in the image does. */
  tag: string;
  dockerfile: string;
  /** Files it copies, by the name they have there. */
  files?: Record<string, string>;
  args?: Record<string, string>;
};

/** Build and push an image unless the registry has it; under its own tag and as `:1`. Gives `name:tag`. */
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
