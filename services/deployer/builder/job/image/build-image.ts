import { createHash } from "node:crypto";
import { chmodSync, copyFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Readable } from "node:stream";
import { imageArtifact } from "../../../runtime/port.ts";
import { type BuildPlan, STATIC_SERVER_FILE } from "../../detect/detect.ts";
import { archiveChanged, BuildFailure, type BuildRequest, type BuildResult } from "../../port.ts";
import { fetchGit } from "../../source/git-fetch.ts";
import { planFor, treeOf } from "../../source/source-root.ts";
import { unpackArchive } from "../../source/unpack.ts";
import { toBuildFailure, withTimeLimit } from "../../time-limit.ts";
import { cacheTag, IMAGE_LABELS, imageTag, type JobRequest, PATHS } from "../job-request.ts";
import { connectRegistry, repositoryOf } from "../registry/registry.ts";
import {
  type Buildah,
  type BuildahResult,
  certificateBundle,
  type ImageBuild,
  setUpBuildah,
} from "./buildah.ts";
import { type GeneratedBuild, generate, SOURCE_FOLDER, withArguments } from "./dockerfile.ts";
import { isNamed, nonRootUser } from "./image-user.ts";

/** How the program tells what it does. */
export type BuildEvents = Required<Pick<BuildRequest, "onStage" | "onCommit" | "log">>;

const PUSH_ATTEMPTS = 3;

type Build = {
  request: JobRequest;
  events: BuildEvents;
  buildah: Buildah;
  /** Its `app` is the source; all of it is the context of a generated Dockerfile. */
  context: string;
  work: string;
  /** What the steps see and no image keeps. */
  variables: Record<string, string>;
  signal: AbortSignal;
};

/** Source to an image in the registry. Throws `BuildFailure`, or what is worth another try. */
export async function buildImage(request: JobRequest, events: BuildEvents): Promise<BuildResult> {
  try {
    return await withTimeLimit({ ...request, ...events }, new AbortController().signal, (signal, log) =>
      build(request, { ...events, log }, signal),
    );
  } catch (error) {
    throw toBuildFailure(error);
  }
}

async function build(request: JobRequest, events: BuildEvents, signal: AbortSignal): Promise<BuildResult> {
  const work = join(PATHS.work, "berth");
  const context = join(work, "context");
  const app = join(context, SOURCE_FOLDER);
  mkdirSync(app, { recursive: true, mode: 0o755 });
  const variables = { ...request.variables, ...certificateVariables() };
  const buildah = setUpBuildah(work, request.registry, variables);

  events.onStage("Fetching source");
  const commit = await fetchSource(request, events, app, join(work, "tmp"), variables, signal);
  events.onStage("Detecting runtime");
  const wanted = { ...request, containers: true as const, hasTool: () => true };
  const plan = await planFor(wanted, app, events.log);
  events.log(plan.because);

  events.onStage("Building image");
  const { push, pull } = request.registry;
  const tag = imageTag(push, request.buildId);
  const labels = {
    [IMAGE_LABELS.build]: request.buildId,
    [IMAGE_LABELS.service]: request.serviceId,
    [IMAGE_LABELS.runtime]: plan.runtime,
    ...(plan.command !== undefined && { [IMAGE_LABELS.command]: plan.command }),
    ...(commit !== undefined && { [IMAGE_LABELS.commit]: commit }),
  };
  const all: Build = { request, events, buildah, context, work, variables, signal };
  const fresh =
    plan.dockerfile === undefined
      ? await buildGenerated(all, plan, { tag, labels })
      : await buildFromDockerfile(all, plan.dockerfile, { tag, labels });

  events.onStage("Pushing image");
  const digest = await pushImage(all, tag);
  events.log(plan.command === undefined ? "Built." : `Built. It starts with: ${plan.command}`);
  await fresh?.();
  return {
    artifact: imageArtifact(`${repositoryOf(tag).replace(push, pull)}@${digest}`),
    runtime: plan.runtime,
    ...(plan.command !== undefined && { command: plan.command }),
    ...(commit !== undefined && { commit }),
  };
}

/** The operator's certificateBundle, for the programs of this build and for the steps of the source. */
function certificateVariables(): Record<string, string> {
  const bundle = certificateBundle();
  if (!existsSync(bundle)) return {};
  const names = [
    "NODE_EXTRA_CA_CERTS",
    "SSL_CERT_FILE",
    "GIT_SSL_CAINFO",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "PIP_CERT",
  ];
  return Object.fromEntries(names.map((name) => [name, bundle]));
}

/** Puts the source into `app`; gives the commit of a git source. */
async function fetchSource(
  { source, limits, timeoutMs }: JobRequest,
  events: BuildEvents,
  app: string,
  tmp: string,
  variables: Record<string, string>,
  signal: AbortSignal,
): Promise<string | undefined> {
  if (source.kind === "archive") {
    const response = await fetch(source.url, { signal });
    if (response.status === 404)
      throw new BuildFailure(
        "source",
        "archive_missing",
        "The uploaded archive is no longer there; upload it again.",
      );
    if (!response.ok || !response.body)
      throw new Error(`the object store answers ${response.status} to the request for the archive`);
    // The store's ETag, as its client writes it.
    const etag = response.headers.get("etag")?.replaceAll('"', "");
    if (source.digest !== undefined && etag !== source.digest) {
      await response.body.cancel();
      throw archiveChanged();
    }
    const body = Readable.fromWeb(response.body as Parameters<typeof Readable.fromWeb>[0]);
    const { entries, bytes, skipped } = await unpackArchive(body, app, { limits, tmp }, signal);
    events.log(`Unpacked ${entries} entries, ${bytes} bytes.`);
    if (skipped > 0) events.log(`Left out ${skipped} “._” entries, which only macOS uses.`);
    return undefined;
  }
  events.log(`Fetching the branch ${source.branch} of ${source.repository}`);
  const env = { PATH: process.env.PATH ?? "", TMPDIR: tmp, ...variables };
  const fetched = await fetchGit({ source, target: app, tmp, env, limits, timeoutMs }, signal);
  events.onCommit(fetched.commit);
  events.log(`Its newest commit is ${fetched.commit}: ${fetched.entries} entries, ${fetched.bytes} bytes.`);
  return fetched.commit;
}

type Image = { tag: string; labels: Record<string, string> };

/** Builds by the source's own Dockerfile, in which everything is allowed that a step of a build is. */
async function buildFromDockerfile(all: Build, file: string, image: Image): Promise<undefined> {
  const { context, work, variables, buildah, events, signal } = all;
  const app = join(context, SOURCE_FOLDER);
  const dockerfile = join(work, "Dockerfile");
  writeFileSync(dockerfile, withArguments(readFileSync(join(app, file), "utf8"), Object.keys(variables)));
  const bud = {
    ...image,
    dockerfile,
    context: app,
    variables,
    mounts: certificateMounts(variables),
    pulled: false,
  };
  const result = await buildah.build(bud, events.log, signal);
  if (result.code !== 0) throw dockerfileFailure(result);
  await setNonRootUser(all, bud);
}

/** A cluster starts images only as a user that is not root, and that is a number. */
async function setNonRootUser({ work, buildah, events, signal }: Build, bud: ImageBuild): Promise<void> {
  const user = await buildah.userOf(bud.tag, signal);
  const named = isNamed(user);
  const wanted = nonRootUser(user, named ? await buildah.usersIn(bud.tag, signal) : "");
  if (wanted === user) return;
  const dockerfile = join(work, "Dockerfile.user");
  writeFileSync(dockerfile, `FROM ${bud.tag}\nUSER ${wanted}\n`);
  const result = await buildah.build({ ...bud, dockerfile, mounts: [], pulled: true }, () => {}, signal);
  if (result.code !== 0) throw new Error(`the image's user could not be set: ${result.error}`);
  if (!named) events.log(`The image would run as root; it runs as user ${wanted}. USER chooses another.`);
}

/** Nothing but a lack of memory kills a step in a container of its own. */
function outOfMemory({ error, step = "" }: BuildahResult): BuildFailure | undefined {
  if (!/exit status 137$|signal: killed/.test(error)) return undefined;
  const shown = step.replace(/^RUN /, "").slice(0, 500);
  return new BuildFailure(
    "build",
    "out_of_memory",
    `“${shown}” was killed: it needed more memory than a builder has.`,
  );
}

function dockerfileFailure(result: BuildahResult): BuildFailure {
  const { error, step, code } = result;
  const killed = outOfMemory(result);
  if (killed) return killed;
  const status = /exit status (\d+)$/.exec(error)?.[1];
  if (status !== undefined && step !== undefined)
    return new BuildFailure(
      "build",
      "compile_failed",
      `The Dockerfile's step “${step.slice(0, 500)}” ended with exit code ${status}; the build log says why.`,
    );
  const image = /^FROM (\S+)/i.exec(step ?? "")?.[1];
  if (image !== undefined && /initializing source|pinging|pulling|manifest|short-name/i.test(error))
    return baseImageFailure(image);
  const reason = error.slice(0, 500).replace(/\.$/, "");
  return new BuildFailure(
    "build",
    "dockerfile_failed",
    `The Dockerfile cannot be built (${code}): ${reason}.`,
  );
}

function baseImageFailure(image: string): BuildFailure {
  return new BuildFailure(
    "build",
    "base_image_unavailable",
    `The base image ${image} cannot be pulled: it does not exist, is private, or its registry cannot be reached.`,
  );
}

/**
 * Builds without a Dockerfile of the source's. Dependencies that another build of the service installed from
 * the same files are taken over; what this one installed can be kept by calling what it gives.
 */
async function buildGenerated(
  all: Build,
  plan: BuildPlan,
  image: Image,
): Promise<(() => Promise<void>) | undefined> {
  const { request, context, work, variables, events } = all;
  if (plan.needsStaticServer)
    copyFileSync(join(import.meta.dirname, "../../static-server.ts"), join(context, STATIC_SERVER_FILE));
  const { baseImages, port } = request;
  const tree = treeOf(join(context, SOURCE_FOLDER));
  const generated = generate(plan, tree, { baseImages, names: Object.keys(variables), port });
  const pulled = await Promise.all(generated.baseImages.map((one) => pullBase(all, one)));
  // The steps' files for a while are on the disk, and in no layer.
  const tmp = join(work, "steps");
  mkdirSync(tmp, { recursive: true });
  chmodSync(tmp, 0o1777);
  const mounts = [...certificateMounts(variables), { from: tmp, to: "/tmp", writable: true }];
  const shared = { context, variables, mounts, pulled: true, ignored: generated.ignored };
  const run = async (text: string, name: string, of: Image) => {
    const dockerfile = join(work, name);
    writeFileSync(dockerfile, text);
    const result = await all.buildah.build({ ...shared, ...of, dockerfile }, events.log, all.signal);
    if (result.code !== 0) throw stepFailure(result, generated);
  };
  const kept = await prepareDependencies(all, generated, pulled[0]!, run);
  await run(generated.app(kept?.tag), "Dockerfile", image);
  return kept?.keep;
}

/** The image with the dependencies: an earlier build's, or made now. */
async function prepareDependencies(
  all: Build,
  { dependencies }: GeneratedBuild,
  baseId: string,
  run: (text: string, name: string, of: Image) => Promise<void>,
): Promise<{ tag: string; keep?: () => Promise<void> } | undefined> {
  if (!dependencies) return undefined;
  const { request, context, buildah, events, signal } = all;
  const tag = cacheTag(request.registry.push, request.serviceId);
  const contents = dependencies.files.map((file) => [
    file,
    readFileSync(join(context, SOURCE_FOLDER, file), "base64"),
  ]);
  const key = createHash("sha256")
    .update(JSON.stringify([baseId, dependencies.dockerfile, contents]))
    .digest("hex");
  const registry = connectRegistry(request.registry);
  const before = await registry.find(tag).catch(() => undefined);
  if (before?.labels[IMAGE_LABELS.key] === key && (await buildah.pull(tag, signal)).code === 0) {
    events.log(`The dependencies are those of an earlier build: ${dependencies.unchanged} did not change.`);
    return { tag };
  }
  await run(dependencies.dockerfile, "Dockerfile.dependencies", { tag, labels: { [IMAGE_LABELS.key]: key } });
  // The build has what it needs: when nothing can be kept, the next one installs again.
  const keep = async () => {
    const pushed = await buildah.push(tag, () => {}, signal);
    const old = before && `${repositoryOf(tag)}@${before.digest}`;
    if (pushed.code === 0 && old && pushed.digest !== before.digest)
      await registry.remove(old).catch(() => {});
  };
  return { tag, keep };
}

async function pullBase({ buildah, events, signal }: Build, image: string): Promise<string> {
  const { code, lines, error } = await buildah.pull(image, signal);
  if (code === 0) return lines.at(-1) ?? "";
  events.log(`The base image ${image} cannot be pulled: ${error}`);
  throw baseImageFailure(image);
}

function stepFailure(result: BuildahResult, { steps }: GeneratedBuild): Error {
  const { error, step = "", code } = result;
  const known = [...steps].find(([instruction]) => instruction === step)?.[1];
  if (!known) return new Error(`buildah ended with ${code}: ${error}`);
  const status = /exit status (\d+)$/.exec(error)?.[1] ?? code;
  const shown = known.run.join(" ");
  const killed = outOfMemory(result);
  if (killed) return killed;
  const message = `“${shown}” ended with exit code ${status}; the build log says why.`;
  return new BuildFailure("build", known.failure, message);
}

function certificateMounts(variables: Record<string, string>): ImageBuild["mounts"] {
  const bundle = certificateBundle();
  return variables.SSL_CERT_FILE === bundle
    ? [{ from: PATHS.authorities, to: PATHS.authorities, writable: false }]
    : [];
}

async function pushImage({ buildah, events, signal }: Build, tag: string): Promise<string> {
  for (let time = 1; ; time++) {
    const { code, digest, error } = await buildah.push(tag, events.log, signal);
    if (code === 0) return digest;
    if (time === PUSH_ATTEMPTS) throw new Error(`the image could not be pushed: ${error}`);
    events.log("The image could not be pushed; it is tried again.");
  }
}
