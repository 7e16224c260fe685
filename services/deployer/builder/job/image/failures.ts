import { BuildFailure, lockFileOutdated, saysOutdatedLock } from "../../build-failure.ts";
import { shownCommand } from "../../detect/build-plan.ts";
import type { BuildahResult } from "./buildah.ts";
import type { GeneratedBuild } from "./dockerfile.ts";

const SHOWN_CHARS = 500;

/** Returns the failure of building the source's own Dockerfile. */
export function toDockerfileFailure(result: BuildahResult): BuildFailure {
  const { error, step, code } = result;
  const killed = toMemoryFailure(result);
  if (killed) return killed;
  const status = /exit status (\d+)$/.exec(error)?.[1];
  if (status !== undefined && step !== undefined)
    return new BuildFailure(
      "build",
      "compile_failed",
      `The Dockerfile's step “${step.slice(0, SHOWN_CHARS)}” ended with exit code ${status}; the build log says why.`,
    );
  const image = /^FROM (\S+)/i.exec(step ?? "")?.[1];
  if (image !== undefined && /initializing source|pinging|pulling|manifest|short-name/i.test(error))
    return baseImageUnavailable(image);
  const reason = error.slice(0, SHOWN_CHARS).replace(/\.$/, "");
  return new BuildFailure(
    "build",
    "dockerfile_failed",
    `The Dockerfile cannot be built (${code}): ${reason}.`,
  );
}

/** Returns the failure of a generated Dockerfile: the source's when one of the plan's steps failed. */
export function toStepFailure(result: BuildahResult, { steps }: GeneratedBuild): Error {
  const { error, step = "", code, lines } = result;
  const failed = steps.get(step) ?? [...steps].find(([one]) => unquoted(one) === unquoted(step))?.[1];
  if (!failed) return new Error(`buildah ended with ${code}: ${error}`);
  const killed = toMemoryFailure(result);
  if (killed) return killed;
  if (failed.failure === "install_failed" && lines.some(saysOutdatedLock)) return lockFileOutdated();
  const status = /exit status (\d+)$/.exec(error)?.[1] ?? code;
  const message = `“${shownCommand(failed)}” ended with exit code ${status}; the build log says why.`;
  return new BuildFailure("build", failed.failure, failed.message ?? message);
}

/** Returns an instruction without the signs that buildah may write in another way. */
function unquoted(instruction: string): string {
  return instruction.replaceAll(/['"\\]/g, "");
}

export function baseImageUnavailable(image: string): BuildFailure {
  return new BuildFailure(
    "build",
    "base_image_unavailable",
    `The base image ${image} cannot be pulled: it does not exist, is private, or its registry cannot be reached.`,
  );
}

/** A step in a container of its own is killed by nothing but the lack of memory. */
function toMemoryFailure({ error, step = "" }: BuildahResult): BuildFailure | undefined {
  if (!/exit status 137$|signal: killed/.test(error)) return undefined;
  const command = step.replace(/^RUN /, "").slice(0, SHOWN_CHARS);
  return new BuildFailure(
    "build",
    "out_of_memory",
    `“${command}” was killed because it needed more memory than a builder has.`,
  );
}
