import { delimiter, join } from "node:path";
import { BuildFailure, diskFull, lockFileOutdated, saysOutdatedLock } from "../build-failure.ts";
import { type BuildPlan, type BuildStep, partitionSteps, shownCommand } from "../detect/build-plan.ts";
import type { BuildRequest } from "../port.ts";
import { type CommandContext, runCommand } from "../run-command.ts";
import type { DependencyCache } from "./dependency-cache.ts";

/** Returns the command that runs another one behind walls. */
export type Behind = (argv: string[]) => string[];

/** Runs the steps of a plan; dependencies are copied from an earlier build of the service where they are the same. */
export async function runPlan(
  plan: BuildPlan,
  cache: DependencyCache,
  { serviceId, log }: BuildRequest,
  given: CommandContext & { behind: Behind },
  signal: AbortSignal,
): Promise<void> {
  const { install, compile } = partitionSteps(plan);
  const { behind } = given;
  const context = withPath(given, plan.path);
  const cached = await cache.find(serviceId, plan, context, signal);
  if (cached && (await cached.restore(signal))) {
    log(`Reusing the dependencies of an earlier build: ${cached.unchanged} did not change.`);
    await runSteps(plan.dependencies!.afterRestore, context, behind, log, signal);
  } else {
    await runSteps(install, context, behind, log, signal);
    await cached?.store(signal);
  }
  await runSteps(compile, context, behind, log, signal);
}

async function runSteps(
  steps: BuildStep[],
  context: CommandContext,
  behind: Behind,
  log: (line: string) => void,
  signal: AbortSignal,
): Promise<void> {
  for (const step of steps) {
    const { run } = step;
    const command = shownCommand(step);
    log(`$ ${command}`);
    let outOfSpace = false;
    let outdated = false;
    const watchLine = (line: string) => {
      outOfSpace ||= /\bENOSPC\b|no space left on device/i.test(line);
      outdated ||= saysOutdatedLock(line);
      log(line);
    };
    const code = await runCommand(behind(run), context, watchLine, signal);
    if (code === 0) continue;
    if (outOfSpace) throw diskFull();
    throw outdated && step.failure === "install_failed" ? lockFileOutdated() : stepFailed(step, code);
  }
}

function stepFailed(step: BuildStep, code: number): BuildFailure {
  const message = `“${shownCommand(step)}” ended with exit code ${code}; the build log says why.`;
  return new BuildFailure("build", step.failure, step.message ?? message);
}

function withPath(context: CommandContext, folders: string[]): CommandContext {
  const path = folders.map((folder) => join(context.cwd, folder));
  return { ...context, env: { ...context.env, PATH: [...path, context.env.PATH].join(delimiter) } };
}
