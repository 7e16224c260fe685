import { spawn } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { maskSecrets } from "../../shared/mask-secrets.ts";
import { endProcesses, startedOf } from "../../shared/process-tree.ts";
import { hasProgram } from "../build-environment.ts";
import { BuildFailure, type BuildFailureCode, type BuildLimits, type GitBuildSource } from "../port.ts";
import { runCommand } from "../run-command.ts";
import { checkGitSource, normalizeContextDir } from "./git-source.ts";
import { unpackArchive } from "./unpack.ts";

type GitFetch = {
  source: GitBuildSource;
  /** The empty folder that takes the files. */
  target: string;
  /** The build's folder for what is not kept; its processes are known by it. */
  tmp: string;
  /** A build's environment. */
  env: Record<string, string>;
  limits: BuildLimits;
  /** Past it the fetch fails with `git_timeout`. */
  timeoutMs: number;
};

type GitFetched = {
  commit: string;
  entries: number;
  bytes: number;
};

/** A fetch takes at most this long, and at most half of the time of its build. */
const FETCH_MS = 5 * 60_000;
/** What is read of a line that git, or the server through it, says. */
const LINE_LENGTH = 4096;
const NOT_FOUND_OR_PRIVATE =
  "Check its URL. If it is private, put an access token into a sensitive variable and name that in the source's tokenVariable.";

/**
 * Fetches the newest commit of a branch into a throw-away repository, and unpacks its files under the limits
 * and checks of an archive: nothing is checked out, so no hook, filter or submodule takes effect. Throws
 * `BuildFailure` with stage `source`; nothing it says holds the token.
 */
export async function fetchGit(fetch: GitFetch, signal: AbortSignal): Promise<GitFetched> {
  const { source, tmp, limits } = fetch;
  const problem = checkGitSource(source);
  if (problem) throw failure("source_invalid", `The source's ${problem.member} ${problem.message}.`);
  if (!hasProgram("git", fetch.env.PATH ?? ""))
    throw failure("toolchain_missing", "The source is a git repository, and git is not on this machine.");
  const limit = Math.min(FETCH_MS, Math.ceil(fetch.timeoutMs / 2));
  const late = AbortSignal.timeout(limit);
  const either = AbortSignal.any([signal, late]);
  const place = { cwd: tmp, folder: tmp, env: gitEnvironment(fetch.env, tmp, source) };
  try {
    await init(place, either);
    await download(place, source, limits, either);
    const commit = (await ask(place, ["rev-parse", "refs/heads/source"], either)) ?? "";
    const tree = await treeOf(place, source, commit, either);
    const unpacked = await unpackTree(place, tree, fetch, either);
    return { commit, ...unpacked };
  } catch (error) {
    signal.throwIfAborted();
    if (late.aborted)
      throw failure("git_timeout", `The repository could not be fetched within ${limit / 1000} s.`);
    throw error;
  } finally {
    await rm(repositoryIn(tmp), { recursive: true, force: true });
  }
}

type Place = { cwd: string; folder: string; env: Record<string, string> };

const repositoryIn = (tmp: string) => join(tmp, "repository");

/**
 * What git sees: neither the settings and credentials of this machine's user nor a way to ask anybody. The
 * helper answers for the repository's own origin only, so that a redirect does not carry the token away.
 */
function gitEnvironment(
  env: Record<string, string>,
  tmp: string,
  { repository, token }: GitBuildSource,
): Record<string, string> {
  const settings: [string, string][] = [
    ["core.hooksPath", "/dev/null"],
    ["core.bigFileThreshold", "32m"],
    ["fetch.unpackLimit", "1"], // one pack, whose size is limited
    ["gc.auto", "0"],
    ["maintenance.auto", "false"],
    ["submodule.recurse", "false"],
    ["http.followRedirects", "initial"],
    ["http.lowSpeedLimit", "1"],
    ["http.lowSpeedTime", "60"],
  ];
  const { user, password } = credentialsOf(token);
  if (token !== undefined) {
    const helper = `!f() { test "$1" = get && printf 'username=%s\\npassword=%s\\n' "$BERTH_GIT_USER" "$BERTH_GIT_PASSWORD"; }; f`;
    settings.push([`credential.${new URL(repository).origin}.helper`, helper]);
  }
  const authorities = env.CURL_CA_BUNDLE ?? env.SSL_CERT_FILE;
  return {
    ...env,
    LANG: "C.UTF-8",
    LC_ALL: "C.UTF-8",
    HOME: tmp,
    XDG_CONFIG_HOME: tmp,
    GIT_DIR: repositoryIn(tmp),
    GIT_CONFIG_NOSYSTEM: "1",
    GIT_CONFIG_GLOBAL: "/dev/null",
    GIT_TERMINAL_PROMPT: "0",
    GIT_ASKPASS: "",
    GIT_ALLOW_PROTOCOL: "http:https",
    GIT_CONFIG_COUNT: String(settings.length),
    ...Object.fromEntries(
      settings.flatMap(([name, value], at) => [
        [`GIT_CONFIG_KEY_${at}`, name],
        [`GIT_CONFIG_VALUE_${at}`, value],
      ]),
    ),
    ...(authorities !== undefined && { GIT_SSL_CAINFO: authorities }),
    ...(token !== undefined && { BERTH_GIT_USER: user, BERTH_GIT_PASSWORD: password }),
  };
}

/** Hosts that take a token as password take any user, or say which; then the value is `user:token`. */
function credentialsOf(token = "") {
  if (/\p{Cc}/u.test(token))
    throw failure("git_token_invalid", "The token holds a line break or another control character.");
  const at = token.indexOf(":");
  return at > 0
    ? { user: token.slice(0, at), password: token.slice(at + 1) }
    : { user: "x-access-token", password: token };
}

async function init(place: Place, signal: AbortSignal): Promise<void> {
  mkdirSync(join(place.env.GIT_DIR!, "info"), { recursive: true, mode: 0o700 });
  const run = ["git", "init", "--quiet", "--bare", "--template=", "--initial-branch=none"];
  const { code, lines } = await collect(place, run, signal);
  if (code !== 0) throw failure("git_failed", `git could not begin: ${lastLine(lines)}`);
  // What belongs into a build is not what authors put into their releases.
  writeFileSync(join(place.env.GIT_DIR!, "info/attributes"), "* -export-ignore -export-subst\n");
}

async function download(
  place: Place,
  source: GitBuildSource,
  limits: BuildLimits,
  signal: AbortSignal,
): Promise<void> {
  const refs = `+refs/heads/${source.branch}:refs/heads/source`;
  const blocks = Math.ceil(limits.unpackedBytes / 512);
  const git = ["git", "fetch", "--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules"];
  const run = ["sh", "-c", `ulimit -f ${blocks}; exec "$@"`, "sh", ...git, "--", source.repository, refs];
  const { code, lines } = await collect(place, run, signal);
  if (code !== 0) throw explain(lines, source, limits);
}

/** Turns what git says into a sentence for users. */
function explain(lines: string[], source: GitBuildSource, limits: BuildLimits): BuildFailure {
  const { repository, branch, token } = source;
  const said = lines.join("\n");
  if (/couldn't find remote ref/.test(said))
    return failure("git_branch_not_found", `The repository ${repository} has no branch “${branch}”.`);
  if (/died of signal (25|31)\b|File too large/i.test(said))
    return failure("archive_too_large", `The repository is larger than ${mebibytes(limits)}.`);
  if (/could not read (Username|Password)|Authentication failed|returned error: 40[13]\b/.test(said))
    return failure(
      "git_authentication_failed",
      token === undefined
        ? `The repository ${repository} does not exist, or is private. ${NOT_FOUND_OR_PRIVATE}`
        : `${new URL(repository).host} refused the token for ${repository}: it is wrong, has expired or may not read this repository.`,
    );
  if (
    /^fatal: repository '.*' not found|returned error: 404\b|not valid: is this a git repository/m.test(said)
  )
    return failure(
      "git_repository_not_found",
      `There is no repository at ${repository}. ${NOT_FOUND_OR_PRIVATE}`,
    );
  if (/timed out|Operation too slow|Timeout was reached/i.test(said))
    return failure("git_timeout", `${new URL(repository).host} did not answer in time.`);
  if (
    /Could not resolve|Failed to connect|Couldn't connect|Connection re|SSL|certificate|returned error: 5\d\d/i.test(
      said,
    )
  )
    return failure("git_unreachable", `The repository cannot be reached: ${masked(lastLine(lines), token)}`);
  if (/No space left|Disk quota/i.test(said))
    return failure("disk_full", "There is no room left on the disk to fetch the repository.");
  return failure("git_failed", `git could not fetch the repository: ${masked(lastLine(lines), token)}`);
}

/** The object whose files are the source. */
async function treeOf(
  place: Place,
  { contextDir, branch }: GitBuildSource,
  commit: string,
  signal: AbortSignal,
): Promise<string> {
  const folder = normalizeContextDir(contextDir);
  if (folder === undefined) return commit;
  const tree = `${commit}:${folder}`;
  if ((await ask(place, ["cat-file", "-t", tree], signal)) === "tree") return tree;
  throw failure(
    "git_context_dir_not_found",
    `The branch “${branch}” has no folder ${JSON.stringify(folder)}.`,
  );
}

async function unpackTree(
  place: Place,
  tree: string,
  { target, limits, tmp }: GitFetch,
  signal: AbortSignal,
): Promise<{ entries: number; bytes: number }> {
  signal.throwIfAborted();
  const child = spawn("git", ["archive", "--format=tar", tree], {
    ...place,
    detached: true,
    stdio: ["ignore", "pipe", "ignore"],
  });
  const leader =
    child.pid === undefined ? undefined : { pid: child.pid, started: startedOf(child.pid) ?? "" };
  const ended = new Promise<number>((resolve) => {
    child.once("exit", (code) => resolve(code ?? 1));
    child.once("error", () => resolve(127));
  });
  try {
    const unpacked = await unpackArchive(child.stdout, target, { limits, format: "tar", tmp }, signal);
    if ((await ended) !== 0)
      throw failure("git_failed", "git could not read the repository that it fetched.");
    return unpacked;
  } catch (error) {
    throw error instanceof BuildFailure ? aboutRepository(error) : error;
  } finally {
    await endProcesses(leader, place.folder, () => 0);
  }
}

/** The checks are those of archives; what users have is a repository. */
function aboutRepository({ stage, code, message }: BuildFailure): BuildFailure {
  if (code === "archive_truncated" || code === "archive_not_tar")
    return failure("git_failed", "git could not read the repository that it fetched.");
  if (code === "archive_empty") return failure("archive_empty", "The repository holds no files there.");
  return new BuildFailure(stage, code, message.replace(/\b(the) archive\b/gi, "$1 repository"));
}

async function ask(place: Place, args: string[], signal: AbortSignal): Promise<string | undefined> {
  const { code, lines } = await collect(place, ["git", ...args], signal);
  return code === 0 ? lines[0] : undefined;
}

async function collect(place: Place, run: string[], signal: AbortSignal) {
  const lines: string[] = [];
  const keep = (line: string) => void (lines.length < 200 && lines.push(line.slice(0, LINE_LENGTH)));
  const code = await runCommand(run, place, keep, signal);
  return { code, lines };
}

/** git's own last word; what the server says comes before it, marked as `remote:`. */
function lastLine(lines: string[]): string {
  const own = lines.filter((line) => /^(fatal|error): /.test(line));
  const line = own.at(-1)?.replace(/^(fatal|error): /, "") ?? "it gave no reason";
  return `${line.slice(0, 500).replace(/\.$/, "")}.`;
}

function masked(text: string, token: string | undefined): string {
  if (token === undefined) return text;
  const { user, password } = credentialsOf(token);
  return maskSecrets([token, password, Buffer.from(`${user}:${password}`).toString("base64")])(text);
}

function mebibytes(limits: BuildLimits): string {
  return `${Math.floor(limits.unpackedBytes / 1024 ** 2)} MiB`;
}

function failure(code: BuildFailureCode, message: string): BuildFailure {
  return new BuildFailure("source", code, message);
}
