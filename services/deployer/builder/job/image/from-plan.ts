import { chmodSync, copyFileSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type BuildPlan, STATIC_SERVER_FILE } from "../../detect/build-plan.ts";
import { readTree } from "../../source/source-root.ts";
import { certificateMounts } from "./certificates.ts";
import { prepareDependencies } from "./dependency-image.ts";
import { generateDockerfiles, SOURCE_FOLDER } from "./dockerfile.ts";
import { baseImageUnavailable, toStepFailure } from "./failures.ts";
import type { ImageBuild, ImageName } from "./image-build.ts";

/**
 * Builds a source without a Dockerfile, by generated ones. Dependencies that an earlier build of the service installed
 * from the same files are reused; otherwise returns a function that stores this build's for later ones.
 */
export async function buildFromPlan(
  build: ImageBuild,
  plan: BuildPlan,
  image: ImageName,
): Promise<(() => Promise<void>) | undefined> {
  const { request, context, work, own, variables, buildah, events, signal } = build;
  if (plan.site !== undefined)
    copyFileSync(join(import.meta.dirname, "../../static-server.ts"), join(context, STATIC_SERVER_FILE));
  const { baseImages, port } = request;
  const tree = readTree(join(context, SOURCE_FOLDER));
  const names = { names: Object.keys(variables), own: Object.keys(own) };
  const generated = generateDockerfiles(plan, tree, { baseImages, ...names, port });
  // One after another: pulls at once of one image, or of two that share layers, get in each other's way.
  const pulled: string[] = [];
  for (const image of new Set(generated.baseImages)) pulled.push(await pullBaseImage(build, image));
  // Temporary files of the steps are on the disk, and in no layer.
  const tmp = join(work, "steps");
  mkdirSync(tmp, { recursive: true });
  chmodSync(tmp, 0o1777);
  const mounts = [...certificateMounts(variables), { from: tmp, to: "/tmp", writable: true }];
  const shared = { context, mounts, pulled: true, ignored: generated.ignored };
  const run = async (text: string, name: string, of: ImageName, variables = own) => {
    const dockerfile = join(work, name);
    writeFileSync(dockerfile, text);
    const result = await buildah.build({ ...shared, ...of, variables, dockerfile }, events.log, signal);
    if (result.code !== 0) throw toStepFailure(result, generated);
  };
  const dependencies = await prepareDependencies(build, generated, pulled[0]!, run);
  await run(generated.app(dependencies?.tag), "Dockerfile", image, variables);
  return dependencies?.store;
}

/** Returns the id of the image. */
async function pullBaseImage({ buildah, events, signal }: ImageBuild, image: string): Promise<string> {
  const { code, lines, error } = await buildah.pull(image, signal);
  if (code === 0) return lines.at(-1) ?? "";
  events.log(`The base image ${image} cannot be pulled: ${error}`);
  throw baseImageUnavailable(image);
}
