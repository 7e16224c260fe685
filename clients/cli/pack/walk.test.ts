import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import fc from "fast-check";
import { afterAll, beforeEach, expect, test } from "vitest";
import { Failure } from "../failure.ts";
import { largestFolders, listFolder, type Patterns } from "./walk.ts";

const made: string[] = [];
let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "berth-pack-"));
  made.push(folder);
});

afterAll(() => {
  for (const each of made) rmSync(each, { recursive: true });
});

/** Writes files by their paths; a path that another needs as a folder, or the reverse, is left out. */
function write(files: Record<string, string>, at = folder): void {
  for (const [path, text] of Object.entries(files)) {
    try {
      mkdirSync(dirname(join(at, path)), { recursive: true });
      writeFileSync(join(at, path), text);
    } catch {}
  }
}

const listed = async (path = folder, patterns: Partial<Patterns> = {}) =>
  (await listFolder(path, { include: [], exclude: [], ...patterns })).entries.map((entry) => entry.path);

function git(...args: string[]): string {
  const env = {
    PATH: process.env.PATH,
    HOME: folder,
    GIT_CONFIG_NOSYSTEM: "1",
    GIT_CONFIG_GLOBAL: "/dev/null",
  };
  return execFileSync("git", ["-c", "core.excludesFile=/dev/null", ...args], {
    cwd: folder,
    env,
    encoding: "utf8",
  });
}

const part = fc.constantFrom(
  "a",
  "b",
  "ab",
  "a.b",
  "b c",
  "[a]",
  "*",
  "é",
  "foo",
  "A",
  "c ",
  "!a",
  "#a",
  "a-b",
  "]",
  "x😀",
);
const path = fc.array(part, { minLength: 1, maxLength: 4 }).map((parts) => parts.join("/"));
const piece = fc.constantFrom(
  ..."a|b|ab|foo|.b|é|*|?|**|**/|/**|/|!|\\|\\*|\\ |[ab]|[!a]|[^a]|[a-c]|[[:alpha:]]|[[:nope:]]|[]a]|[a|[a\\]]|[--b]|[b-a]| |#|A|c |x|😀".split(
    "|",
  ),
);
const pattern = fc.array(piece, { minLength: 1, maxLength: 5 }).map((pieces) => pieces.join(""));
const lines = fc.array(pattern, { minLength: 1, maxLength: 4 }).map((each) => `${each.join("\n")}\n`);

test("what is packed is what git does not ignore, whatever the rules, also those of folders inside", async () => {
  const seed = Number(process.env.TEST_SEED);
  const cases = fc.sample(
    fc.record({ files: fc.array(path, { minLength: 4, maxLength: 12 }), outer: lines, inner: lines }),
    {
      seed,
      numRuns: 250,
    },
  );
  git("init", "-q");
  for (const [n, { files, outer, inner }] of cases.entries()) {
    const at = `case-${n}`;
    write({ [`${at}/.gitignore`]: outer, [`${at}/a/.gitignore`]: inner });
    write(Object.fromEntries(files.map((file) => [`${at}/${file}`, ""])));
  }
  const byGit = git("ls-files", "--others", "--exclude-standard", "-z").split("\0").filter(Boolean);
  const { entries } = await listFolder(folder, { include: [], exclude: [] });
  const ours = entries.filter(({ kind }) => kind !== "folder").map((entry) => entry.path);
  const differing = [...new Set([...ours, ...byGit])].filter(
    (each) => ours.includes(each) !== byGit.includes(each),
  );
  const shown = differing.slice(0, 3).map((each) => {
    const { outer, inner } = cases[Number(/^case-(\d+)/.exec(each)?.[1])]!;
    return { path: each, ours: ours.includes(each) ? "packed" : "ignored", outer, inner };
  });
  expect(shown).toEqual([]);
  expect(byGit.length).toBeGreaterThan(500);
});

test("a folder in a repository follows the rules of the folders above it, and is packed though they ignore it", async () => {
  write({
    ".git/HEAD": "",
    ".gitignore": "*.log\n/apps/web/secret\ndist/\n",
    "apps/.gitignore": "!keep.log\n",
    "apps/web/main.js": "",
    "apps/web/a.log": "",
    "apps/web/keep.log": "",
    "apps/web/secret": "",
    "dist/page.html": "",
  });
  expect(await listed(join(folder, "apps/web"))).toEqual(["keep.log", "main.js"]);
  expect(await listed(join(folder, "dist"))).toEqual(["page.html"]);
});

test("patterns of the command line come before .berthignore, which comes before .gitignore", async () => {
  write({
    ".gitignore": "a\n",
    ".berthignore": "b\n",
    a: "",
    b: "",
    c: "",
    "d/.berthignore": "a",
    "d/a": "",
  });
  const rest = [".berthignore", ".gitignore"];
  expect(await listed()).toEqual([...rest, "a", "c", "d", "d/.berthignore"]);
  expect(await listed(folder, { include: ["b"], exclude: ["c", "/d/"] })).toEqual([...rest, "a", "b"]);
  expect(await listed(folder, { include: ["c"], exclude: ["*"] })).toEqual(["c"]);
});

test(".git is never packed, a folder's or a submodule's; links stay links, and one that leads outside is refused", async () => {
  write({ ".git/config": "", "sub/.git": "gitdir: ../.git", "sub/file": "" });
  symlinkSync("sub/file", join(folder, "link"));
  symlinkSync("sub", join(folder, "to-folder"));
  expect(await listed(folder, { include: [".git"] })).toEqual(["link", "sub", "sub/file", "to-folder"]);
  for (const target of ["../outside", "/etc/passwd", "sub/../../outside"]) {
    rmSync(join(folder, "link"));
    symlinkSync(target, join(folder, "link"));
    const failed = await listed().catch((error: unknown) => error);
    expect(failed).toBeInstanceOf(Failure);
    expect((failed as Failure).message).toBe(`The link link points outside of the folder: ${target}.`);
    expect(await listed(folder, { exclude: ["/link"] })).toContain("sub/file");
  }
});

test("what cannot be in an archive is left out and named", async () => {
  write({ file: "" });
  const server = createServer().listen(join(folder, "socket"));
  await new Promise((resolve) => server.once("listening", resolve));
  const { entries, leftOut } = await listFolder(folder, { include: [], exclude: [] });
  server.close();
  expect([entries.map((entry) => entry.path), leftOut]).toEqual([["file"], ["socket"]]);
});

test("the largest folders are those that one can act on", async () => {
  write({
    small: "1",
    "node_modules/x/big": "1".repeat(500),
    "node_modules/x/y/more": "1".repeat(100),
    "src/a": "12",
  });
  const listing = await listFolder(folder, { include: [], exclude: [] });
  expect(largestFolders(listing, 2)).toEqual([
    { path: "node_modules/x", size: 600, files: 2 },
    { path: "src", size: 2, files: 1 },
  ]);
});

test("a pattern that somebody wrote to waste time wastes none", async () => {
  const stars = `${"*a".repeat(2_000)}b`;
  const deep = `${"**/a/".repeat(500)}b`;
  write({ ".gitignore": `${stars}\n${deep}\n`, ["a".repeat(200)]: "", [`${"a/".repeat(100)}c`]: "" });
  expect(await listed()).toContain(`${"a/".repeat(100)}c`);
});
