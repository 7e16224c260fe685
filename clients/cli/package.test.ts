import { execFileSync, spawnSync } from "node:child_process";
import { cpSync, globSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";

const bin = join(import.meta.dirname, "../../node_modules/.bin");
/** A stranger's folder, into which the package as it is published is installed. */
const folder = mkdtempSync(join(tmpdir(), "berth-cli-package-"));
const installed = join(folder, "node_modules/@berth/cli");

beforeAll(() => {
  const source = join(folder, "source");
  mkdirSync(installed, { recursive: true });
  mkdirSync(source);
  for (const name of ["package.json", "README.md", "bin"])
    cpSync(join(import.meta.dirname, name), join(source, name), { recursive: true });
  const run = (file: string, args: string[]) => execFileSync(file, args, { cwd: source, stdio: "pipe" });
  const config = join(import.meta.dirname, "tsconfig.build.json");
  run(join(bin, "tsc"), ["-p", config, "--outDir", join(source, "dist")]);
  run("npm", ["pack", "--pack-destination", folder]);
  run("tar", ["xzf", globSync(join(folder, "*.tgz"))[0]!, "-C", installed, "--strip-components", "1"]);
});

afterAll(() => rmSync(folder, { recursive: true }));

test("the package is plain JavaScript that needs nothing else", () => {
  const files = globSync("{bin,dist}/**/*.js", { cwd: installed });
  const imports = files.flatMap((file) =>
    [...readFileSync(join(installed, file), "utf8").matchAll(/(?:from |import\()"([^"]+)"/g)].map(
      ([, from]) => from!,
    ),
  );
  expect(imports.length).toBeGreaterThan(100);
  expect(imports.filter((from) => !/^node:|^\.{1,2}\/.*\.js$/.test(from))).toEqual([]);
  const manifest = JSON.parse(readFileSync(join(installed, "package.json"), "utf8")) as object;
  expect(manifest).not.toHaveProperty("dependencies");
});

test("it runs as it is installed, on this Node and on the older one that a shell may have", () => {
  const command = join(installed, "bin/berth.js");
  const shell = spawnSync("node", ["-p", "process.execPath"], {
    env: { PATH: withoutOurs() },
    encoding: "utf8",
  });
  for (const node of new Set([process.execPath, ...(shell.status === 0 ? [shell.stdout.trim()] : [])])) {
    const [major] = execFileSync(node, ["-p", "process.versions.node"], { encoding: "utf8" }).split(".");
    if (Number(major) < 20) continue;
    const run = (args: string[]) => spawnSync(node, [command, ...args], { cwd: folder, encoding: "utf8" });
    expect(run(["--version"]).stdout).toMatch(/^\d+\.\d+\.\d+\n$/);
    expect(run(["help"]).stdout).toContain("berth deploys");
    const listed = run([
      "up",
      "--dry-run",
      "--json",
      "--exclude",
      "*",
      "--include",
      "/node_modules/",
      installed,
    ]);
    expect([listed.status, listed.stderr]).toEqual([1, expect.stringContaining("nothing to pack")]);
    const packed = run(["up", "--dry-run", installed]);
    expect([packed.status, packed.stderr]).toEqual([0, expect.stringContaining("files")]);
  }
});

/** The PATH without the Node that comes with `npm ci`. */
function withoutOurs(): string {
  return process.env
    .PATH!.split(":")
    .filter((each) => !each.includes("node_modules"))
    .join(":");
}
