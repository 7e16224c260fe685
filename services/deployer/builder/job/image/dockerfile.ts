import { type BuildPlan, type BuildStep, type SourceTree, STATIC_SERVER_FILE } from "../../detect/detect.ts";
import type { BaseImages } from "../job-request.ts";

/** How a source without a Dockerfile becomes an image. Pure: only text comes of it. */
export type GeneratedBuild = {
  /** What has to be pulled; the first decides what kept dependencies fit. */
  baseImages: string[];
  /**
   * What installs the dependencies and nothing else, so that another build of the service may take them over:
   * its Dockerfile, and the files that decide.
   */
  dependencies?: { dockerfile: string; files: string[]; unchanged: string };
  /** The Dockerfile of the image; `from` is the image with the dependencies, when there are such. */
  app(from?: string): string;
  /** Paths of the context that no build gets to see. */
  ignored: string[];
  /** The steps of the plan, by their instruction. */
  steps: Map<string, BuildStep>;
};

/** In the build's context the source is this folder; beside it lies the static server. */
export const SOURCE_FOLDER = "app";

/** Numbers alone: that they are not root's can be told without looking into the image. */
const USER = "10001:10001";
const HOME = "/srv";
const PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

const PREAMBLE = ["ENV HOME=/tmp", `USER ${USER}`, `WORKDIR ${HOME}/app`];

/**
 * The Dockerfiles for a plan. `names` are variables that its steps see and the image does not keep, `port`
 * what the app is told to listen on by default.
 */
export function generate(
  plan: BuildPlan,
  tree: SourceTree,
  { baseImages, names, port }: { baseImages: BaseImages; names: string[]; port: number },
): GeneratedBuild {
  const { dependencies } = plan;
  const steps = new Map(plan.steps.map((step) => [instruction(step), step]));
  const from = (image: string, as = "") => [`FROM ${image}${as}`, ...names.map((name) => `ARG ${name}`)];
  const source = `COPY --chown=${USER} ${SOURCE_FOLDER}/ ./`;
  const end = [...environmentOf(plan), `ENV PORT=${port}`, `EXPOSE ${port}`, startOf(plan)];
  const lines = (...parts: string[][]) => `${parts.flat().join("\n")}\n`;

  if (plan.runtime === "go")
    return {
      baseImages: [baseImages.go, baseImages.static],
      app: () =>
        lines(
          from(baseImages.go, " AS compiled"),
          // Nothing of this stage is kept but what was compiled.
          [
            "USER 0",
            "ENV HOME=/tmp CGO_ENABLED=0 GOPATH=/tmp/go GOCACHE=/tmp/go-build",
            `WORKDIR ${HOME}/app`,
          ],
          [`COPY ${SOURCE_FOLDER}/ ./`, ...steps.keys()],
          from(baseImages.static),
          PREAMBLE,
          [`COPY --from=compiled ${HOME}/bin ${HOME}/bin`, source],
          end,
        ),
      ignored: [],
      steps,
    };

  const base = { python: baseImages.python, static: baseImages.static }[plan.runtime as string];
  const image = base ?? baseImages.node;
  if (!dependencies) {
    const server = plan.needsStaticServer ? [`COPY ${STATIC_SERVER_FILE} ${HOME}/`] : [];
    const app = () => lines(from(image), PREAMBLE, server, [source, ...steps.keys()], end);
    return { baseImages: [image], app, ignored: [], steps };
  }
  const installs = plan.steps.filter((step) => step.failure === "install_failed");
  const others = plan.steps.filter((step) => !installs.includes(step));
  for (const step of dependencies.afterRestore) steps.set(instruction(step), step);
  const files = dependencies.files.filter((file) => tree.exists(file));
  const copied = `COPY --chown=${USER} ${files.map((file) => `${SOURCE_FOLDER}/${file}`).join(" ")} ./`;
  return {
    baseImages: [image],
    dependencies: {
      dockerfile: lines(from(image), PREAMBLE, [copied, ...installs.map(instruction)]),
      files,
      unchanged: files[0]!,
    },
    app: (installed = image) =>
      lines(from(installed), [source, ...[...dependencies.afterRestore, ...others].map(instruction)], end),
    ignored: [`${SOURCE_FOLDER}/${dependencies.folder}`],
    steps,
  };
}

function instruction({ run }: BuildStep): string {
  return `RUN ${run.map(quote).join(" ")}`;
}

function environmentOf(plan: BuildPlan): string[] {
  const folders = plan.path.map((folder) => new URL(folder, `file://${HOME}/app/`).pathname);
  const path = folders.length > 0 ? [`ENV PATH=${folders.join(":")}:\${PATH:-${PATH}}`] : [];
  return plan.runtime === "node" ? ["ENV NODE_ENV=production", ...path] : path;
}

function startOf({ command, needsStaticServer }: BuildPlan): string {
  const start = needsStaticServer ? `${command} 0.0.0.0` : command;
  return `CMD ${JSON.stringify(["/bin/sh", "-c", start ?? ""])}`;
}

/** For the shell of a RUN instruction. */
function quote(word: string): string {
  return /^[\w./=:@-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

/**
 * A user's Dockerfile whose stages know these build arguments, so that its steps see them: nothing of it
 * stays in the image's environment, and what the file sets itself comes first.
 */
export function withArguments(dockerfile: string, names: string[]): string {
  const [, continued = "\\"] = /^(?:#.*\r?\n)*?#\s*escape\s*=\s*([\\`])/i.exec(dockerfile) ?? [];
  const lines: string[] = [];
  let instructionOf = "";
  for (const line of dockerfile.split(/\r?\n/)) {
    lines.push(line);
    const comment = /^\s*(#|$)/.test(line);
    if (comment) continue;
    instructionOf ||= /^\s*(\w+)/.exec(line)?.[1]?.toUpperCase() ?? "OTHER";
    if (line.trimEnd().endsWith(continued)) continue;
    if (instructionOf === "FROM") lines.push(...names.map((name) => `ARG ${name}`));
    instructionOf = "";
  }
  return lines.join("\n");
}
