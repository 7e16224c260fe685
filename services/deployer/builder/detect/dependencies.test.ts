import { expect, test } from "vitest";
import type { SourceTree } from "./build-plan.ts";
import { nodeDependencies } from "./node-dependencies.ts";
import { pythonDependencies } from "./python.ts";

function treeOf(files: Record<string, unknown>): SourceTree {
  const text = (content: unknown) => (typeof content === "string" ? content : JSON.stringify(content));
  return {
    exists: (path) => path in files,
    read: (path) => (path in files ? text(files[path]) : undefined),
    folders: () => [],
    files: () => [],
  };
}

const own = { resolved: "https://packages.example/a/-/a-1.0.0.tgz", integrity: "sha512-x" };
const locked = (packages: Record<string, object>, pkg: object = {}, more: Record<string, unknown> = {}) =>
  nodeDependencies(
    treeOf({ "package.json": pkg, "package-lock.json": { packages: { "": {}, ...packages } }, ...more }),
  );

test("node_modules of a lock file are taken over, and scripts of packages run again", () => {
  expect(locked({ "node_modules/a": own, "node_modules/a/node_modules/b": own })).toMatchObject({
    folder: "node_modules",
    files: ["package-lock.json", "package.json", ".npmrc"],
    afterRestore: [],
  });
  const scripted = locked({ "node_modules/a": { ...own, hasInstallScript: true } });
  expect(scripted?.afterRestore).toMatchObject([{ run: ["npm", "rebuild"] }]);
  expect(locked({}, {}, { "npm-shrinkwrap.json": { packages: {} } })?.files[0]).toBe("npm-shrinkwrap.json");
});

test("node_modules that depend on more of the source than its lock file are installed each time", () => {
  const a = { "node_modules/a": own };
  for (const [why, found] of [
    ["a script of the app", locked(a, { scripts: { postinstall: "x" } })],
    ["another script of the app", locked(a, { scripts: { prepare: "x" } })],
    ["workspaces", locked(a, { workspaces: ["packages/*"] })],
    ["a link", locked({ ...a, "node_modules/b": { resolved: "b", link: true } })],
    ["a package in the source", locked({ ...a, "packages/b": {} })],
    ["a package as a file", locked({ "node_modules/a": { resolved: "file:a.tgz" } })],
    ["something to compile", locked(a, {}, { "binding.gyp": "{}" })],
    ["an old lock file", nodeDependencies(treeOf({ "package.json": {}, "package-lock.json": {} }))],
    ["no lock file", nodeDependencies(treeOf({ "package.json": {} }))],
    ["a broken lock file", nodeDependencies(treeOf({ "package.json": {}, "package-lock.json": "{" }))],
  ] as const)
    expect([why, found]).toEqual([why, undefined]);
});

test("a virtual environment of plain requirements is taken over, one that needs more of the source is not", () => {
  const plain = [
    "flask==3.0.0 # the framework",
    "uvicorn[standard]>=0.30,<1 ; python_version >= '3.9'",
    "--index-url https://pypi.example.com/simple",
    "click==8.1.7 \\\n    --hash=sha256:ae74fb96",
    "",
  ];
  for (const line of plain)
    expect([line, pythonDependencies(line)]).toEqual([line, expect.objectContaining({ folder: ".venv" })]);
  const other = [
    "-e .",
    "-r more.txt",
    "-c constraints.txt",
    "./wheels/a.whl",
    "a-1.0-py3-none-any.whl",
    "a @ file:///srv/a",
    "git+https://git.example.com/a",
    "https://example.com/a.tar.gz",
    ".",
    "--find-links wheels",
  ];
  for (const line of other) expect([line, pythonDependencies(`flask\n${line}\n`)]).toEqual([line, undefined]);
  expect(pythonDependencies(undefined)).toBeUndefined();
});
