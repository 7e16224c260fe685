/** A git source as users give it. */
export type GitSource = {
  repository: string;
  branch: string;
  contextDir?: string;
  tokenVariable?: string;
};

/** What is wrong with a git source: the member, and what it must be, to follow the member's name. */
type GitSourceProblem = {
  member: keyof GitSource;
  message: string;
};

const LOOPBACK = /^(localhost|127(\.\d{1,3}){3}|\[::1\])$/;

/**
 * Returns the first problem of a git source; undefined when git can fetch it: an http(s) URL without credentials, a
 * branch name that git allows, a folder inside the repository, a variable's name.
 */
export function checkGitSource(source: GitSource): GitSourceProblem | undefined {
  const messages: [keyof GitSource, string | undefined][] = [
    ["repository", repositoryProblem(source.repository, source.tokenVariable !== undefined)],
    ["branch", isBranchName(source.branch) ? undefined : "is not a valid name of a branch"],
    ["contextDir", contextDirProblem(source.contextDir ?? "")],
    ["tokenVariable", variableProblem(source.tokenVariable)],
  ];
  const found = messages.find(([, message]) => message !== undefined);
  return found && { member: found[0], message: found[1]! };
}

/** Returns the folder in its shortest form: `./web/` becomes `web`; undefined for the whole repository. */
export function normalizeContextDir(path: string | undefined): string | undefined {
  const segments = (path ?? "").split("/").filter((segment) => segment !== "" && segment !== ".");
  return segments.join("/") || undefined;
}

function repositoryProblem(repository: string, withToken: boolean): string | undefined {
  if (/^ssh:/i.test(repository) || /^[^/:@]+@[^/:]+:/.test(repository))
    return "cannot be fetched over ssh: use its https:// URL, and for a private repository a tokenVariable";
  if (!/^https?:\/\//i.test(repository)) return "must begin with https:// or http://";
  // The URL of a repository needs none of these, and programs interpret them differently.
  if (!/^[!-~]+$/.test(repository) || /[\\"<>^`{|}?#]|%(0[0-9a-f]|1[0-9a-f]|7f)/i.test(repository))
    return "must be a plain URL: no spaces, query, fragment or control characters";
  if (!URL.canParse(repository)) return "must be a URL";
  const { hostname, pathname, protocol } = new URL(repository);
  if (/^https?:\/\/[^/]*@/i.test(repository))
    return "must not contain a user or a password: put the token into a variable and name that in tokenVariable";
  if (pathname === "/") return "must name a repository, not only a host";
  if (withToken && protocol === "http:" && !LOOPBACK.test(hostname))
    return "must be https:// when there is a tokenVariable: over http:// anyone on the network can read the token";
  return undefined;
}

/** Whether `git check-ref-format --branch` accepts the name. */
function isBranchName(name: string): boolean {
  const bad = /[\p{Cc} ~^:?*[\\]|\.\.|@\{|\/\/|^[-/]|[./]$|^@$/u;
  return !bad.test(name) && name.split("/").every((part) => !part.startsWith(".") && !part.endsWith(".lock"));
}

function contextDirProblem(path: string): string | undefined {
  if (path.startsWith("/") || path.split("/").includes(".."))
    return "must be a folder inside the repository, without a leading / and without ..";
  return /[\p{Cc}\\]/u.test(path) ? "cannot contain control characters or backslashes" : undefined;
}

function variableProblem(name: string | undefined): string | undefined {
  return name === undefined || /^[A-Za-z_][A-Za-z0-9_]*$/.test(name)
    ? undefined
    : "must be the name of a variable";
}
