/** A git source as users give it. */
export type GitSource = {
  repository: string;
  branch: string;
  contextDir?: string;
  tokenVariable?: string;
};

/** Why a git source cannot be: the member, and a sentence. */
type GitSourceProblem = {
  member: keyof GitSource;
  message: string;
};

const LOOPBACK = /^(localhost|127(\.\d{1,3}){3}|\[::1\])$/;

/**
 * The first thing wrong with a git source, undefined when git can be given it: an http(s) URL that carries
 * no credentials, a branch name as git allows it, a folder inside the repository, a variable's name.
 */
export function checkGitSource(source: GitSource): GitSourceProblem | undefined {
  const messages: [keyof GitSource, string | undefined][] = [
    ["repository", repositoryProblem(source.repository, source.tokenVariable !== undefined)],
    ["branch", isBranchName(source.branch) ? undefined : "is not a name that a branch can have"],
    ["contextDir", contextDirProblem(source.contextDir ?? "")],
    ["tokenVariable", variableProblem(source.tokenVariable)],
  ];
  const found = messages.find(([, message]) => message !== undefined);
  return found && { member: found[0], message: found[1]! };
}

/** The folder without what does not change it: `./web/` is `web`; undefined for the whole repository. */
export function normalizeContextDir(path: string | undefined): string | undefined {
  const segments = (path ?? "").split("/").filter((segment) => segment !== "" && segment !== ".");
  return segments.join("/") || undefined;
}

function repositoryProblem(repository: string, withToken: boolean): string | undefined {
  if (/^ssh:/i.test(repository) || /^[^/:@]+@[^/:]+:/.test(repository))
    return "cannot be reached over ssh: give its https:// URL, and for a private repository a tokenVariable";
  if (!/^https?:\/\//i.test(repository)) return "must begin with https:// or http://";
  // Neither has a place in the URL of a repository, and programs differ in what they make of them.
  if (!/^[!-~]+$/.test(repository) || /[\\"<>^`{|}?#]|%(0[0-9a-f]|1[0-9a-f]|7f)/i.test(repository))
    return "must be a plain URL: no spaces, query, fragment or control characters";
  if (!URL.canParse(repository)) return "must be a URL";
  const { hostname, pathname, protocol } = new URL(repository);
  if (/^https?:\/\/[^/]*@/i.test(repository))
    return "must not hold a user or a password: name the variable that holds the token in tokenVariable";
  if (pathname === "/") return "must name a repository, not only a host";
  if (withToken && protocol === "http:" && !LOOPBACK.test(hostname))
    return "must be https:// when there is a tokenVariable: over http:// anybody on the way reads the token";
  return undefined;
}

/** What `git check-ref-format --branch` lets pass. */
function isBranchName(name: string): boolean {
  const bad = /[\p{Cc} ~^:?*[\\]|\.\.|@\{|\/\/|^[-/]|[./]$|^@$/u;
  return !bad.test(name) && name.split("/").every((part) => !part.startsWith(".") && !part.endsWith(".lock"));
}

function contextDirProblem(path: string): string | undefined {
  if (path.startsWith("/") || path.split("/").includes(".."))
    return "must be a folder inside the repository, without a leading / and without ..";
  return /[\p{Cc}\\]/u.test(path) ? "cannot hold control characters or backslashes" : undefined;
}

function variableProblem(name: string | undefined): string | undefined {
  return name === undefined || /^[A-Za-z_][A-Za-z0-9_]*$/.test(name)
    ? undefined
    : "must be the name of a variable";
}
