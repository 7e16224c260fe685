import { spawn } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { checkGitSource, normalizeContextDir } from "../../../sources/git-source.ts";
import { hasProgram } from "../../build-environment.ts";
import { BuildFailure, sourceFailure } from "../../build-failure.ts";
import type { BuildLimits, GitBuildSource } from "../../port.ts";
import { type CommandContext, runCommand, superviseSession } from "../../run-command.ts";
import { unpackArchive } from "../archive/unpack.ts";
import { gitEnvironment, repositoryFolder } from "./environment.ts";
import { lastError, repositoryUnreadable, toFetchFailure, toRepositoryFailure } from "./failures.ts";

type GitFetch = {
  source: GitBuildSource;
  /** The empty folder that takes the files. */
  target: string;
  /** The build's folder for temporary files; its processes are found by it. */
  tmp: string;
  /** A build's environment. */
  env: Record<string, string>;
  limits: BuildLimits;
  /** The time of the whole build. */
  timeoutMs: number;
};

type GitFetched = {
  commit: string;
  entries: number;
  bytes: number;
};

/** A fetch takes at most this long, and at most half the time of its build. */
const FETCH_MS = 5 * 60_000;
/**
 * The pauses before a server that cannot be reached is asked again: a build's pod may be running before its network is,
 * and servers restart.
 */
const PAUSES_MS = [1_000, 3_000];
const MAX_LINES = 200;
const MAX_LINE_CHARS = 4096;

/**
 * Fetches the newest commit of a branch into a throw-away repository, and unpacks its files under the limits and
 * checks of an archive. Nothing is checked out, so hooks, filters and submodules have no effect. Throws `BuildFailure`
 * with stage `source`; neither its message nor any output contains the token.
 */
export async function fetchGit(fetch: GitFetch, signal: AbortSignal): Promise<GitFetched> {
  const { source, tmp, limits } = fetch;
  const problem = checkGitSource(source);
  if (problem) throw sourceFailure("source_invalid", `The source's ${problem.member} ${problem.message}.`);
  if (!hasProgram("git", fetch.env.PATH ?? ""))
    throw sourceFailure(
      "toolchain_missing",
      "The source is a git repository, but git is not installed on this machine.",
    );
  const limitMs = Math.min(FETCH_MS, Math.ceil(fetch.timeoutMs / 2));
  const timeout = AbortSignal.timeout(limitMs);
  const either = AbortSignal.any([signal, timeout]);
  const context = { cwd: tmp, folder: tmp, env: gitEnvironment(fetch.env, tmp, source) };
  try {
    await initRepository(context, either);
    await download(context, source, limits, either);
    const commit = (await firstLine(context, ["rev-parse", "refs/heads/source"], either)) ?? "";
    const tree = await findTree(context, source, commit, either);
    const unpacked = await unpackTree(context, tree, fetch, either);
    return { commit, ...unpacked };
  } catch (error) {
    signal.throwIfAborted();
    if (timeout.aborted)
      throw sourceFailure("git_timeout", `The repository could not be fetched within ${limitMs / 1000} s.`);
    throw error;
  } finally {
    await rm(repositoryFolder(tmp), { recursive: true, force: true });
  }
}

async function initRepository(context: CommandContext, signal: AbortSignal): Promise<void> {
  const info = join(context.env.GIT_DIR!, "info");
  mkdirSync(info, { recursive: true, mode: 0o700 });
  const run = ["git", "init", "--quiet", "--bare", "--template=", "--initial-branch=none"];
  const { code, lines } = await collect(context, run, signal);
  if (code !== 0) throw sourceFailure("git_failed", `git could not begin: ${lastError(lines)}`);
  // A build needs files that authors leave out of their releases, and needs them unchanged.
  writeFileSync(join(info, "attributes"), "* -export-ignore -export-subst\n");
}

async function download(
  context: CommandContext,
  source: GitBuildSource,
  limits: BuildLimits,
  signal: AbortSignal,
): Promise<void> {
  const refs = `+refs/heads/${source.branch}:refs/heads/source`;
  const blocks = Math.ceil(limits.unpackedBytes / 512);
  const git = ["git", "fetch", "--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules"];
  const run = ["sh", "-c", `ulimit -f ${blocks}; exec "$@"`, "sh", ...git, "--", source.repository, refs];
  for (const pause of [...PAUSES_MS, undefined]) {
    const { code, lines } = await collect(context, run, signal);
    if (code === 0) return;
    const failure = toFetchFailure(lines, source, limits);
    if (failure.code !== "git_unreachable" || pause === undefined) throw failure;
    await delay(pause, undefined, { signal });
  }
}

/** Returns git's name of the tree that is the source: the commit's, or that of its `contextDir`. */
async function findTree(
  context: CommandContext,
  { contextDir, branch }: GitBuildSource,
  commit: string,
  signal: AbortSignal,
): Promise<string> {
  const folder = normalizeContextDir(contextDir);
  if (folder === undefined) return commit;
  const tree = `${commit}:${folder}`;
  if ((await firstLine(context, ["cat-file", "-t", tree], signal)) === "tree") return tree;
  throw sourceFailure(
    "git_context_dir_not_found",
    `The branch “${branch}” has no folder ${JSON.stringify(folder)}.`,
  );
}

async function unpackTree(
  context: CommandContext,
  tree: string,
  { target, limits, tmp }: GitFetch,
  signal: AbortSignal,
): Promise<{ entries: number; bytes: number }> {
  signal.throwIfAborted();
  const { cwd, env, folder } = context;
  const child = spawn("git", ["archive", "--format=tar", tree], {
    cwd,
    env,
    detached: true,
    stdio: ["ignore", "pipe", "ignore"],
  });
  const { exited, kill } = superviseSession(child, folder);
  try {
    const unpacked = await unpackArchive(child.stdout, target, { limits, format: "tar", tmp }, signal);
    if ((await exited) !== 0) throw repositoryUnreadable();
    return unpacked;
  } catch (error) {
    throw error instanceof BuildFailure ? toRepositoryFailure(error) : error;
  } finally {
    await kill();
  }
}

/** Returns the first line that git prints; undefined when it fails. */
async function firstLine(
  context: CommandContext,
  args: string[],
  signal: AbortSignal,
): Promise<string | undefined> {
  const { code, lines } = await collect(context, ["git", ...args], signal);
  return code === 0 ? lines[0] : undefined;
}

async function collect(context: CommandContext, run: string[], signal: AbortSignal) {
  const lines: string[] = [];
  const add = (line: string) => {
    if (lines.length < MAX_LINES) lines.push(line.slice(0, MAX_LINE_CHARS));
  };
  const code = await runCommand(run, context, add, signal);
  return { code, lines };
}
