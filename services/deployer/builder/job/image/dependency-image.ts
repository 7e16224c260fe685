import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { cacheTag, IMAGE_LABELS } from "../job-request.ts";
import { connectRegistry, repositoryOf } from "../registry/registry.ts";
import { type GeneratedBuild, SOURCE_FOLDER } from "./dockerfile.ts";
import type { ImageBuild, ImageName } from "./image-build.ts";

type DependencyImage = {
  tag: string;
  /** Pushes what this build installed; undefined when an earlier build's image is reused. */
  store?: () => Promise<void>;
};

/**
 * Returns the image with the dependencies: an earlier build's when files, steps and base image are the same, otherwise
 * one that `run` builds now. Undefined when the dependencies cannot be separated from the source.
 */
export async function prepareDependencies(
  { request, context, buildah, events, signal }: ImageBuild,
  { dependencies }: GeneratedBuild,
  baseId: string,
  run: (text: string, name: string, of: ImageName) => Promise<void>,
): Promise<DependencyImage | undefined> {
  if (!dependencies) return undefined;
  const tag = cacheTag(request.registry.push, request.serviceId);
  const contents = dependencies.files.map((file) => [
    file,
    readFileSync(join(context, SOURCE_FOLDER, file), "base64"),
  ]);
  const key = createHash("sha256")
    .update(JSON.stringify([baseId, dependencies.dockerfile, contents]))
    .digest("hex");
  const registry = connectRegistry(request.registry);
  const earlier = await registry.find(tag).catch(() => undefined);
  if (earlier?.labels[IMAGE_LABELS.key] === key && (await buildah.pull(tag, signal)).code === 0) {
    events.log(`Reusing the dependencies of an earlier build: ${dependencies.unchanged} did not change.`);
    return { tag };
  }
  await run(dependencies.dockerfile, "Dockerfile.dependencies", { tag, labels: { [IMAGE_LABELS.key]: key } });
  // A failed push is no failure of this build: the next one installs again.
  const store = async () => {
    const pushed = await buildah.push(tag, () => {}, signal);
    const replaced = earlier && `${repositoryOf(tag)}@${earlier.digest}`;
    if (pushed.code === 0 && replaced && pushed.digest !== earlier.digest)
      await registry.remove(replaced).catch(() => {});
  };
  return { tag, store };
}
