import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { ImageBuild } from "../image/image-build.ts";
import { cacheTag, IMAGE_LABELS } from "../job-request.ts";
import { connectRegistry, repositoryOf } from "../registry/registry.ts";

/**
 * Fills `folder` with what the buildpacks of an earlier build of the service cached, if the builder image is the same.
 * `store` pushes what is in the folder then; a failure of either only makes a build slower.
 */
export async function openCache(
  { request, work, buildah, events, signal }: ImageBuild,
  { builderId, folder }: { builderId: string; folder: string },
): Promise<{ store: () => Promise<void> }> {
  const tag = cacheTag(request.registry.push, request.serviceId);
  const key = `buildpacks:${builderId}`;
  const registry = connectRegistry(request.registry);
  const earlier = await registry.find(tag).catch(() => undefined);
  if (earlier?.labels[IMAGE_LABELS.key] === key) {
    const pulled = await buildah.pull(tag, signal);
    if (pulled.code === 0 && (await buildah.copyOut(pulled.lines.at(-1) ?? "", "cache", folder, signal)))
      events.log("Reusing what the buildpacks of an earlier build cached.");
  }
  return {
    async store() {
      const dockerfile = join(work, "Dockerfile.cache");
      writeFileSync(dockerfile, "FROM scratch\nCOPY cache/ /cache/\n");
      const labels = { [IMAGE_LABELS.key]: key };
      const context = join(folder, "..");
      const options = {
        tag,
        labels,
        dockerfile,
        context,
        variables: {},
        mounts: [],
        pulled: true,
        ignored: [],
      };
      const made = await buildah.build(options, () => {}, signal);
      if (made.code !== 0) return;
      const pushed = await buildah.push(tag, () => {}, signal);
      if (pushed.code === 0 && earlier && pushed.digest !== earlier.digest)
        await registry.remove(`${repositoryOf(tag)}@${earlier.digest}`).catch(() => {});
    },
  };
}
