import { type BuildPlan, type DetectionInput, failDetection, type SourceTree } from "./build-plan.ts";

/** Files of languages that only buildpacks build: a start command alone does not make these run. */
const FILES = [
  ...["composer.json", "index.php", "Gemfile", "Cargo.toml", "mix.exs"],
  ...["pom.xml", "build.gradle", "build.gradle.kts", "build.sbt", "project.clj"],
];

/** Whether a source that has a start command is better built by buildpacks than run as it is. */
export function isLeftToBuildpacks(tree: SourceTree, { buildpacks }: DetectionInput): boolean {
  return buildpacks !== undefined && FILES.some((file) => tree.exists(file));
}

/** Returns the plan that leaves a source to Cloud Native Buildpacks; throws where there are none. */
export function planBuildpacks(input: DetectionInput, because: string): BuildPlan {
  if (!input.containers)
    failDetection(
      "buildpacks_need_cluster",
      "config.builder asks for Cloud Native Buildpacks, which need a cluster: this Berth builds without containers. Set config.builder to auto, or install Berth on Kubernetes.",
    );
  if (input.buildpacks === undefined)
    failDetection(
      "buildpacks_not_enabled",
      "config.builder asks for Cloud Native Buildpacks, which this Berth has not turned on: its operator can choose a builder image (in the chart, builds.buildpacks.builder). Until then, set config.builder to auto.",
    );
  const unused = (["installCommand", "buildCommand", "outputDirectory"] as const).filter((one) => input[one]);
  const note =
    unused.length > 0 ? ` They do not use ${unused.map((one) => `config.${one}`).join(", ")}.` : "";
  return { runtime: "buildpacks", because: `${because}${note}`, steps: [], command: input.command, path: [] };
}
