import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { planBuild } from "./source-root.ts";

const MEBIBYTE = 1024 ** 2;

let app: string;
beforeEach(() => {
  app = mkdtempSync(join(tmpdir(), "berth-source-"));
});
afterEach(() => rmSync(app, { recursive: true }));

function plan(files: Record<string, string>, rootDirectory?: string) {
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(app, path)), { recursive: true });
    writeFileSync(join(app, path), text);
  }
  return planBuild({ type: "web", hasTool: () => true, rootDirectory }, app, () => {});
}

test.each<[string, Record<string, string>]>([
  ["one of them", { "requirements.txt": "\n".repeat(5 * MEBIBYTE) }],
  ["a lock file", { "package.json": "{}", "yarn.lock": "\n".repeat(33 * MEBIBYTE) }],
  [
    "all of them together",
    {
      "requirements.txt": "flask\n",
      "pyproject.toml": "\n".repeat(3 * MEBIBYTE),
      "main.py": "\n".repeat(2 * MEBIBYTE),
    },
  ],
])("files that say how to build a source are not read without end: %s", async (_, files) => {
  await expect(plan(files)).rejects.toMatchObject({
    stage: "detect",
    code: "source_invalid",
    message: expect.stringContaining("at most 4 MiB together"),
  });
});

test("a lock file may be large, and a file that is read again counts once", async () => {
  const packages = Array.from({ length: 3 }, (_, n) => [
    `packages/p${n}/package.json`,
    JSON.stringify({ name: `p${n}`, description: "x".repeat(MEBIBYTE), scripts: { start: "node app.js" } }),
  ]);
  const files = {
    "package.json": JSON.stringify({ workspaces: ["packages/*"] }),
    "yarn.lock": `# yarn lockfile v1\n${"\n".repeat(10 * MEBIBYTE)}`,
    ...Object.fromEntries(packages),
  };
  // The packages are listed to find the service's, and again for the order in which they are built.
  expect(await plan(files, "packages/p1")).toMatchObject({ runtime: "node" });
});

test("of many folders that could be built, those with too much to read are named as well", async () => {
  const folders = ["a", "b", "c", "d"].map((name) => [`${name}/requirements.txt`, "\n".repeat(2 * MEBIBYTE)]);
  await expect(plan(Object.fromEntries(folders))).rejects.toMatchObject({
    code: "runtime_not_detected",
    message: expect.stringContaining("a, b, c, d"),
  });
});
