import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import http, { type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

/** The files of a commit by path; `{ link }` is a symbolic link. */
export type GitFiles = Record<string, string | { link: string }>;

/** A git server over HTTP, with working copies of its repositories. */
export type GitServer = Awaited<ReturnType<typeof startGitServer>>;

/**
 * Starts `git http-backend` behind an HTTP server. `/NAME.git` is public, or after `protect` needs a password;
 * `/hangs/…` never answers; `/fails/…` refuses with the text given to `fail`; `/moved/…` redirects to the origin given
 * to `redirect`.
 */
export async function startGitServer(host = "127.0.0.1") {
  const root = mkdtempSync(join(tmpdir(), "berth-git-"));
  const passwords = new Map<string, string>();
  const requests: { url: string; authorization?: string }[] = [];
  const watchers: ((request: { url: string; authorization?: string }) => void)[] = [];
  let redirectTo = "";
  let failure = "";
  let drops = 0;

  const server = http.createServer((request, response) => {
    const { url = "/", headers } = request;
    const seen = { url, authorization: headers.authorization };
    requests.push(seen);
    for (const watch of watchers) watch(seen);
    if (drops > 0) {
      drops--;
      request.socket.resetAndDestroy();
      return;
    }
    if (url.startsWith("/hangs/")) return;
    if (url.startsWith("/fails/")) {
      response.writeHead(400, { "content-type": "text/plain" }).end(failure);
      return;
    }
    if (url.startsWith("/moved/")) {
      response.writeHead(301, { location: redirectTo + url.slice("/moved".length) }).end();
      return;
    }
    const [, name = ""] = /^\/([^/]+)\.git\//.exec(url) ?? [];
    const password = passwords.get(name);
    const [, given = ""] = /^Basic (.+)$/.exec(headers.authorization ?? "") ?? [];
    if (password !== undefined && !Buffer.from(given, "base64").toString().endsWith(`:${password}`)) {
      // Some servers repeat what they were sent.
      response.writeHead(401, { "www-authenticate": 'Basic realm="git"', "content-type": "text/plain" });
      response.end(`not allowed: ${Buffer.from(given, "base64")}\n`);
      return;
    }
    runBackend(root, request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, host, resolve));
  const { port } = server.address() as AddressInfo;

  const git = (name: string, ...args: string[]) =>
    execFileSync("git", ["-C", join(root, `${name}.work`), ...args], {
      encoding: "utf8",
      stdio: ["ignore", "pipe", "pipe"],
      env: {
        PATH: process.env.PATH,
        HOME: root,
        GIT_CONFIG_NOSYSTEM: "1",
        GIT_AUTHOR_NAME: "An Author",
        GIT_AUTHOR_EMAIL: "author@example.com",
        GIT_COMMITTER_NAME: "An Author",
        GIT_COMMITTER_EMAIL: "author@example.com",
      },
    }).trim();

  return {
    origin: `http://${host}:${port}`,
    url: (name: string) => `http://${host}:${port}/${name}.git`,
    /** All requests so far. */
    requests,
    /** Calls `watch` with each request before it is answered. */
    watch: (watch: (typeof watchers)[number]) => void watchers.push(watch),
    /** Runs git in a repository's working copy. */
    git,
    /** Creates a repository with one commit on `main`; returns the commit. */
    create(name: string, files: GitFiles): string {
      execFileSync("git", ["init", "--quiet", "--bare", join(root, `${name}.git`)]);
      mkdirSync(join(root, `${name}.work`));
      git(name, "init", "--quiet", "--initial-branch=main");
      return this.commit(name, files);
    },
    /** Adds a commit with these files to a branch; returns the commit. */
    commit(name: string, files: GitFiles, branch = "main"): string {
      if (git(name, "branch", "--list", branch) === "") git(name, "checkout", "--quiet", "-B", branch);
      else git(name, "checkout", "--quiet", branch);
      for (const [path, content] of Object.entries(files)) {
        const file = join(root, `${name}.work`, path);
        mkdirSync(dirname(file), { recursive: true });
        if (typeof content === "string") writeFileSync(file, content);
        else symlinkSync(content.link, file);
      }
      git(name, "add", "--all");
      git(name, "commit", "--quiet", "--allow-empty", "--message", "a commit");
      return this.push(name, branch);
    },
    /** Pushes a branch of the working copy to the server; returns its commit. */
    push(name: string, branch = "main"): string {
      git(name, "push", "--quiet", "--force", join(root, `${name}.git`), branch);
      return git(name, "rev-parse", branch);
    },
    /** Requires this password for a repository. */
    protect: (name: string, password: string) => void passwords.set(name, password),
    /** Sets the text with which `/fails/…` refuses. */
    fail(text: string) {
      failure = text;
    },
    /** Resets the connections of the next requests. */
    drop(count: number) {
      drops = count;
    },
    /** Sets the origin that `/moved/…` redirects to. */
    redirect(origin: string) {
      redirectTo = origin;
    },
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
      rmSync(root, { recursive: true, force: true });
    },
  };
}

/** Answers a request with the CGI program. */
function runBackend(root: string, request: IncomingMessage, response: ServerResponse): void {
  const { pathname, search } = new URL(request.url ?? "/", "http://git.test");
  const { headers } = request;
  const child = spawn("git", ["http-backend"], {
    env: {
      PATH: process.env.PATH,
      HOME: root,
      GIT_CONFIG_NOSYSTEM: "1",
      GIT_PROJECT_ROOT: root,
      GIT_HTTP_EXPORT_ALL: "1",
      REQUEST_METHOD: request.method,
      PATH_INFO: decodeURIComponent(pathname),
      QUERY_STRING: search.slice(1),
      CONTENT_TYPE: headers["content-type"] ?? "",
      CONTENT_LENGTH: headers["content-length"] ?? "",
      HTTP_CONTENT_ENCODING: String(headers["content-encoding"] ?? ""),
      GIT_PROTOCOL: String(headers["git-protocol"] ?? ""),
    },
    stdio: ["pipe", "pipe", "ignore"],
  });
  child.stdin.on("error", () => {}); // it may exit without reading everything
  request.pipe(child.stdin);
  let head = Buffer.alloc(0);
  child.stdout.on("data", function first(chunk: Buffer) {
    head = Buffer.concat([head, chunk]);
    const end = head.indexOf("\r\n\r\n");
    if (end < 0) return;
    child.stdout.off("data", first);
    const lines = head.toString("latin1", 0, end).split("\r\n");
    const fields = lines.map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 2)]);
    const status = fields.find(([name]) => name === "Status")?.[1] ?? "200";
    response.writeHead(
      Number.parseInt(status, 10),
      Object.fromEntries(fields.filter(([name]) => name !== "Status")),
    );
    response.write(head.subarray(end + 4));
    child.stdout.pipe(response);
  });
  child.stdout.on("end", () => response.end());
}
