import { withExec } from "../../../shared/exec-command.ts";
import { shellQuote } from "../../../shared/shell-quote.ts";
import {
  type BuildPlan,
  type BuildStep,
  partitionSteps,
  type SourceTree,
  STATIC_SERVER_FILE,
} from "../../detect/build-plan.ts";
import type { BaseImages } from "../job-request.ts";

/** How a source without a Dockerfile becomes an image. */
export type GeneratedBuild = {
  /** The images to pull; stored dependencies are valid for one version of the first. */
  baseImages: string[];
  /** Installs the dependencies and nothing else, so that another build may reuse them; `files` determine them. */
  dependencies?: { dockerfile: string; files: string[]; unchanged: string };
  /** Returns the Dockerfile of the app; `from` is the image with the dependencies, if there is one. */
  app(from?: string): string;
  /** Paths of the context that are not sent to the build. */
  ignored: string[];
  /** The steps of the plan by their instruction in a Dockerfile. */
  steps: Map<string, BuildStep>;
};

/** The folder of the build's context that contains the source; the static server is beside it. */
export const SOURCE_FOLDER = "app";

/** Numeric, so that a cluster knows it is not root without reading the image. */
const USER = "10001:10001";
const HOME = "/srv";
const PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

const PREAMBLE = ["ENV HOME=/tmp", `USER ${USER}`, `WORKDIR ${HOME}/app`];

/**
 * Returns the Dockerfiles of a plan. `names` are variables that its steps see and the image does not keep, `own` those
 * that installing dependencies sees as well; `port` is the default of the variable PORT.
 */
export function generateDockerfiles(
  plan: BuildPlan,
  tree: SourceTree,
  { baseImages, names, own, port }: { baseImages: BaseImages; names: string[]; own: string[]; port: number },
): GeneratedBuild {
  const steps = new Map(plan.steps.map((step) => [toInstruction(step), step]));
  const from = (image: string, as = "", seen = names) => [
    `FROM ${image}${as}`,
    ...seen.map((name) => `ARG ${name}`),
  ];
  const source = `COPY --chown=${USER} ${SOURCE_FOLDER}/ ./`;
  const path = toPath(plan);
  const end = [
    ...(["node", "bun"].includes(plan.runtime) ? ["ENV NODE_ENV=production"] : []),
    `ENV PORT=${port}`,
    `EXPOSE ${port}`,
    toCommand(plan),
  ];
  const lines = (...parts: string[][]) => `${parts.flat().join("\n")}\n`;

  if (plan.runtime === "go")
    return {
      baseImages: [baseImages.go, baseImages.static],
      app: () =>
        lines(
          from(baseImages.go, " AS compiled"),
          // Of this stage only the compiled program is kept.
          [
            "USER 0",
            "ENV HOME=/tmp CGO_ENABLED=0 GOPATH=/tmp/go GOCACHE=/tmp/go-build",
            `WORKDIR ${HOME}/app`,
          ],
          [`COPY ${SOURCE_FOLDER}/ ./`, ...steps.keys()],
          from(baseImages.static),
          PREAMBLE,
          [`COPY --from=compiled ${HOME}/bin ${HOME}/bin`, source],
          path,
          end,
        ),
      ignored: [],
      steps,
    };

  const { site } = plan;
  const serves = site !== undefined;
  const server = serves ? [`COPY ${STATIC_SERVER_FILE} ${HOME}/`] : [];
  if (serves && plan.steps.length === 0)
    return {
      baseImages: [baseImages.static],
      app: () => lines(from(baseImages.static), PREAMBLE, server, [source], end),
      ignored: [],
      steps,
    };
  const image = plan.runtime === "python" ? baseImages.python : baseImages.node;
  // Of the image that builds a site, only the site is kept.
  const stage = serves ? " AS built" : "";
  const last = serves
    ? [
        ...from(baseImages.static),
        ...PREAMBLE,
        ...server,
        `COPY --from=built --chown=${USER} ${JSON.stringify([`${HOME}/app/${site}`, `${HOME}/app/${site}`])}`,
        ...end,
      ]
    : end;
  const images = serves ? [image, baseImages.static] : [image];
  const { dependencies } = plan;
  if (!dependencies) {
    const app = () => lines(from(image, stage), PREAMBLE, path, [source, ...steps.keys()], last);
    return { baseImages: images, app, ignored: [], steps };
  }
  const { install, compile } = partitionSteps(plan);
  for (const step of dependencies.afterRestore) steps.set(toInstruction(step), step);
  const files = dependencies.files.filter((file) => tree.exists(file));
  const copied = `COPY --chown=${USER} ${files.map((file) => `${SOURCE_FOLDER}/${file}`).join(" ")} ./`;
  return {
    baseImages: images,
    dependencies: {
      dockerfile: lines(from(image, "", own), PREAMBLE, [copied, ...install.map(toInstruction)]),
      files,
      unchanged: files[0]!,
    },
    app: (installed = image) =>
      lines(
        from(installed, stage),
        path,
        [source, ...[...dependencies.afterRestore, ...compile].map(toInstruction)],
        last,
      ),
    ignored: [`${SOURCE_FOLDER}/${dependencies.folder}`],
    steps,
  };
}

function toInstruction({ run }: BuildStep): string {
  return `RUN ${run.map(shellQuote).join(" ")}`;
}

function toPath(plan: BuildPlan): string[] {
  const folders = plan.path.map((folder) => new URL(folder, `file://${HOME}/app/`).pathname);
  return folders.length > 0 ? [`ENV PATH=${folders.join(":")}:\${PATH:-${PATH}}`] : [];
}

function toCommand({ command, site }: BuildPlan): string {
  const start = site === undefined ? command : `${command} --address 0.0.0.0`;
  return `CMD ${JSON.stringify(["/bin/sh", "-c", withExec(start ?? "")])}`;
}

/**
 * Returns a user's Dockerfile with these build arguments declared in every stage, so that its steps see them. They do
 * not stay in the image's environment, and values that the file sets itself take precedence.
 */
export function withArguments(dockerfile: string, names: string[]): string {
  const [, continued = "\\"] = /^(?:#.*\r?\n)*?#\s*escape\s*=\s*([\\`])/i.exec(dockerfile) ?? [];
  const lines: string[] = [];
  let keyword = "";
  for (const line of dockerfile.split(/\r?\n/)) {
    lines.push(line);
    const comment = /^\s*(#|$)/.test(line);
    if (comment) continue;
    keyword ||= /^\s*(\w+)/.exec(line)?.[1]?.toUpperCase() ?? "OTHER";
    if (line.trimEnd().endsWith(continued)) continue;
    if (keyword === "FROM") lines.push(...names.map((name) => `ARG ${name}`));
    keyword = "";
  }
  return lines.join("\n");
}
