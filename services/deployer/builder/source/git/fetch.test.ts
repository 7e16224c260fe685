import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type GitServer, startGitServer } from "../../../../../test/support/servers/git-server.ts";
import { buildEnvironment } from "../../build-environment.ts";
import { BuildFailure } from "../../build-failure.ts";
import { defaultBuildLimits, type GitBuildSource } from "../../port.ts";
import { fetchGit } from "./fetch.ts";

let server: GitServer;
const root = mkdtempSync(join(tmpdir(), "berth-fetch-"));
beforeAll(async () => {
  server = await startGitServer();
});
afterAll(async () => {
  await server.close();
  rmSync(root, { recursive: true });
});

let count = 0;
const never = new AbortController().signal;

async function fetch(source: Omit<GitBuildSource, "kind">, changes = {}, signal = never) {
  const folder = join(root, String(++count));
  const [target, tmp] = [join(folder, "app"), join(folder, "tmp")];
  for (const one of [target, tmp]) mkdirSync(one, { recursive: true });
  const env = buildEnvironment(process.env, tmp);
  const given = { target, tmp, env, limits: defaultBuildLimits, timeoutMs: 60_000, ...changes };
  const fetched = await fetchGit({ source: { kind: "git", ...source }, ...given }, signal);
  return {
    ...fetched,
    folder,
    target,
    tmp,
    read: (file: string) => readFileSync(join(target, file), "utf8"),
  };
}

async function failureOf(source: Omit<GitBuildSource, "kind">, changes = {}) {
  const failure = await fetch(source, changes).catch((error) => error);
  expect(failure).toBeInstanceOf(BuildFailure);
  expect(failure.stage).toBe("source");
  expect(readdirSync(join(root, String(count), "tmp"))).toEqual([]);
  return failure as BuildFailure;
}

test("the newest commit of the branch is fetched, without history and without a repository around it", async () => {
  server.create("shop", { "a.txt": "old", "gone.txt": "x" });
  server.git("shop", "rm", "--quiet", "gone.txt");
  const commit = server.commit("shop", {
    "a.txt": "new",
    "bin/run": "#!/bin/sh\n",
    "to-a": { link: "a.txt" },
  });
  server.commit("shop", { "a.txt": "other" }, "feature/one");
  const main = await fetch({ repository: server.url("shop"), branch: "main" });
  expect(main.commit).toBe(commit);
  expect(readdirSync(main.target).sort()).toEqual(["a.txt", "bin", "to-a"]);
  expect([main.read("a.txt"), main.read("to-a")]).toEqual(["new", "new"]);
  expect(readdirSync(main.tmp)).toEqual([]);
  const other = await fetch({ repository: server.url("shop"), branch: "feature/one" });
  expect(other.read("a.txt")).toBe("other");
});

test("files that are left out of releases, or filled in there, are as they were committed", async () => {
  const attributes = "docs export-ignore\nversion.txt export-subst\n";
  server.create("attributes", { ".gitattributes": attributes, "docs/a": "a", "version.txt": "$Format:%H$" });
  const fetched = await fetch({ repository: server.url("attributes"), branch: "main" });
  expect([fetched.read("docs/a"), fetched.read("version.txt")]).toEqual(["a", "$Format:%H$"]);
});

test("a context folder is all of the source", async () => {
  server.create("mono", {
    "apps/web/index.html": "web",
    "apps/web/up": { link: "index.html" },
    "secret.txt": "s",
  });
  const fetched = await fetch({ repository: server.url("mono"), branch: "main", contextDir: "./apps/web/" });
  expect(readdirSync(fetched.target).sort()).toEqual(["index.html", "up"]);
  for (const contextDir of ["apps/api", "secret.txt"]) {
    const failure = await failureOf({ repository: server.url("mono"), branch: "main", contextDir });
    expect(failure.code).toBe("git_context_dir_not_found");
    expect(failure.message).toContain(contextDir);
  }
});

test("a context folder that is a link, and links out of it, are refused", async () => {
  server.create("links", {
    "web/out": { link: "../secret.txt" },
    "secret.txt": "s",
    outside: { link: "/etc" },
  });
  const at = (contextDir: string) =>
    failureOf({ repository: server.url("links"), branch: "main", contextDir });
  expect((await at("web")).code).toBe("archive_link_escapes");
  expect((await at("web")).message).toContain("outside the repository");
  expect((await at("outside")).code).toBe("git_context_dir_not_found");
  for (const outside of ["../links", "/etc", "web/../.."])
    expect((await at(outside)).code).toBe("source_invalid");
});

test("submodules stay away", async () => {
  const library = server.create("library", { "lib.txt": "x" });
  const modules = `[submodule "library"]\n\tpath = library\n\turl = ${server.url("library")}\n`;
  server.create("with-module", { "a.txt": "a", ".gitmodules": modules });
  server.git("with-module", "update-index", "--add", "--cacheinfo", `160000,${library},library`);
  server.git("with-module", "commit", "--quiet", "--message", "a submodule");
  server.push("with-module");
  const before = server.requests.length;
  const fetched = await fetch({ repository: server.url("with-module"), branch: "main" });
  expect(readdirSync(join(fetched.target, "library"))).toEqual([]);
  expect(server.requests.slice(before).some(({ url }) => url.startsWith("/library.git"))).toBe(false);
});

test("what is missing is distinguished: repository, branch, commit", async () => {
  server.create("empty-branch", { "a.txt": "a" });
  const missing = await failureOf({ repository: server.url("nowhere"), branch: "main" });
  expect([missing.code, missing.message]).toEqual([
    "git_repository_not_found",
    expect.stringContaining(server.url("nowhere")),
  ]);
  const branch = await failureOf({ repository: server.url("empty-branch"), branch: "develop" });
  expect([branch.code, branch.message]).toEqual(["git_branch_not_found", expect.stringContaining("develop")]);
  const closed = await failureOf({ repository: "http://127.0.0.1:9/a.git", branch: "main" });
  expect(closed.code).toBe("git_unreachable");
});

test("a private repository opens with its token alone, and nothing that others see holds the token", async () => {
  const token = `tok'en"$(id)-${"x".repeat(20)}`;
  const commit = server.create("private", { "a.txt": "private" });
  server.protect("private", token);
  const repository = server.url("private");
  const shown: string[] = [];
  server.watch(({ url, authorization }) => {
    if (!url.startsWith("/private.git") || !authorization) return;
    for (const pid of pids()) {
      try {
        shown.push(readFileSync(`/proc/${pid}/cmdline`, "utf8"));
      } catch {} // ended meanwhile
    }
    const clone = join(root, String(count), "tmp");
    shown.push(...filesIn(clone).map((file) => readFileSync(file, "latin1")));
  });
  const fetched = await fetch({ repository, branch: "main", token });
  expect([fetched.commit, fetched.read("a.txt")]).toEqual([commit, "private"]);
  if (pids().length > 0) expect(shown.join("\n")).toContain("fetch");
  const forms = [token, Buffer.from(`x-access-token:${token}`).toString("base64")];
  const holds = (text: string) => forms.some((form) => text.includes(form));
  expect(shown.filter(holds)).toEqual([]);
  expect(filesIn(fetched.folder).filter((file) => holds(readFileSync(file, "latin1")))).toEqual([]);

  await fetch({ repository, branch: "main", token: `someone:${token}` });
  const { authorization = "" } = server.requests.at(-1)!;
  expect(Buffer.from(authorization.slice(6), "base64").toString()).toBe(`someone:${token}`);

  const without = await failureOf({ repository, branch: "main" });
  expect(without.code).toBe("git_authentication_failed");
  expect(without.message).toContain("tokenVariable");
  const wrong = await failureOf({ repository, branch: "main", token: "a-wrong-token" });
  expect(wrong.code).toBe("git_authentication_failed");
  expect(wrong.message).not.toContain("a-wrong-token");
  expect((await failureOf({ repository, branch: "main", token: "a\npassword=b" })).code).toBe(
    "git_token_invalid",
  );
});

test("a server's error page, however long and odd, is no more than a refusal", async () => {
  // A backtracking pattern took minutes for as much as this.
  server.fail(`${"repository '".repeat(10_000)}\n`.repeat(12));
  const failure = await failureOf({ repository: `${server.origin}/fails/x.git`, branch: "main" });
  expect(failure.code).toBe("git_failed");
  expect(failure.message).toMatch(/^git could not fetch the repository: .*error: 400/);
});

test("a redirect takes no token to another host", async (context) => {
  const other = await startGitServer("127.0.0.2").catch(() => undefined);
  if (!other) return context.skip("this machine has one loopback address");
  try {
    other.create("private", { "a.txt": "a" });
    other.protect("private", "whatever");
    server.redirect(other.origin);
    const repository = `${server.origin}/moved/private.git`;
    const failure = await failureOf({ repository, branch: "main", token: "a-token-of-mine" });
    expect(failure.code).toBe("git_authentication_failed");
    expect(other.requests.length).toBeGreaterThan(0);
    expect(other.requests.filter(({ authorization }) => authorization !== undefined)).toEqual([]);
  } finally {
    await other.close();
  }
});

test("a repository over the limits is refused, before and while it is unpacked", async () => {
  const noise = Array.from({ length: 40_000 }, (_, n) =>
    String.fromCharCode(33 + ((n * n * 7 + (n >> 3)) % 90)),
  );
  server.create("large", { "noise.txt": noise.join(""), "zeros.txt": "0".repeat(3_000_000) });
  const source = { repository: server.url("large"), branch: "main" };
  const limits = { unpackedBytes: 1_000_000, entries: 100 };
  const unpacked = await failureOf(source, { limits });
  expect([unpacked.code, unpacked.message]).toEqual([
    "archive_too_large",
    expect.stringMatching(/^The repository/),
  ]);
  const packed = await failureOf(source, { limits: { unpackedBytes: 5_000, entries: 100 } });
  expect(packed.code).toBe("archive_too_large");
  const many = await failureOf(source, { limits: { unpackedBytes: 10_000_000, entries: 1 } });
  expect(many.code).toBe("archive_too_many_entries");
});

test("a server that does not answer ends the fetch in time, and a cancelled fetch ends at once", async () => {
  const source = { repository: `${server.origin}/hangs/a.git`, branch: "main" };
  expect((await failureOf(source, { timeoutMs: 600 })).code).toBe("git_timeout");
  const cancel = new AbortController();
  const asked = new Promise<void>((resolve) => server.watch(() => resolve()));
  const fetching = fetch(source, {}, cancel.signal).catch((error) => error);
  await asked;
  const reason = new Error("a newer deployment came");
  cancel.abort(reason);
  expect(await fetching).toBe(reason);
  expect(existsSync(join(root, String(count), "tmp", "repository"))).toBe(false);
});

test("a server that cannot be reached for a moment is asked again", async () => {
  server.create("away", { "a.txt": "a" });
  const source = { repository: server.url("away"), branch: "main" };
  server.drop(2);
  expect((await fetch(source)).read("a.txt")).toBe("a");
  server.drop(3);
  expect((await failureOf(source)).code).toBe("git_unreachable");
});

test("where there is no git the sentence says so", async () => {
  const env = { PATH: "/nowhere", TMPDIR: root };
  const failure = await failureOf({ repository: server.url("shop"), branch: "main" }, { env });
  expect([failure.code, failure.message]).toEqual([
    "toolchain_missing",
    expect.stringContaining("git is not"),
  ]);
});

function filesIn(folder: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
}

/** All processes, where the system has a folder of them. */
function pids(): string[] {
  return existsSync("/proc/self") ? readdirSync("/proc").filter((name) => /^\d+$/.test(name)) : [];
}
