import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { BuildahBuild } from "./buildah.ts";
import { certificateMounts } from "./certificates.ts";
import { SOURCE_FOLDER, withArguments } from "./dockerfile.ts";
import { toDockerfileFailure } from "./failures.ts";
import type { ImageBuild, ImageName } from "./image-build.ts";
import { isNamed, nonRootUser } from "./image-user.ts";

/** Builds the source's own Dockerfile `file`. Its steps may do whatever a build step may. Throws `BuildFailure`. */
export async function buildFromDockerfile(build: ImageBuild, file: string, image: ImageName): Promise<void> {
  const { context, work, variables, buildah, events, signal } = build;
  const app = join(context, SOURCE_FOLDER);
  const dockerfile = join(work, "Dockerfile");
  writeFileSync(dockerfile, withArguments(readFileSync(join(app, file), "utf8"), Object.keys(variables)));
  const mounts = certificateMounts(variables);
  const own = { ...image, dockerfile, context: app, variables, mounts, pulled: false };
  const result = await buildah.build(own, events.log, signal);
  if (result.code !== 0) throw toDockerfileFailure(result);
  await setNonRootUser(build, own);
}

/** A cluster starts images only as a user that is a number, and not root. */
async function setNonRootUser(build: ImageBuild, own: BuildahBuild): Promise<void> {
  const { work, buildah, events, signal } = build;
  const user = await buildah.userOf(own.tag, signal);
  const named = isNamed(user);
  const numeric = nonRootUser(user, named ? await buildah.readPasswd(own.tag, signal) : "");
  if (numeric === user) return;
  const dockerfile = join(work, "Dockerfile.user");
  writeFileSync(dockerfile, `FROM ${own.tag}\nUSER ${numeric}\n`);
  const result = await buildah.build({ ...own, dockerfile, mounts: [], pulled: true }, () => {}, signal);
  if (result.code !== 0) throw new Error(`the image's user could not be set: ${result.error}`);
  if (!named)
    events.log(`The image would run as root; it will run as user ${numeric} instead. Set another with USER.`);
}
