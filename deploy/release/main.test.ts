import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { appFiles } from "./image/images.ts";
import { requireClean } from "./source.ts";

const root = join(import.meta.dirname, "../..");
const release = (...args: string[]) =>
  spawnSync(process.execPath, [join(import.meta.dirname, "main.ts"), ...args], { encoding: "utf8" });

test("wrong options are refused before anything is made", () => {
  for (const [args, said] of [
    [["--push", "https://ghcr.io/you"], "--push: name a registry such as ghcr.io/you"],
    [["--nothing"], "Unknown option '--nothing'"],
    [["--push"], "argument missing"],
  ] as const) {
    const { status, stdout, stderr } = release(...args);
    expect([status, stdout]).toEqual([1, ""]);
    expect(stderr).toContain(said);
    expect(stderr).not.toMatch(/^ +at /m);
  }
});

test("a login that is not whole is refused before anything is made", () => {
  const { status, stderr } = spawnSync(
    process.execPath,
    [join(import.meta.dirname, "main.ts"), "--push", "127.0.0.1:1"],
    { encoding: "utf8", env: { PATH: process.env.PATH, REGISTRY_PASSWORD: "hunter2" } },
  );
  expect([status, stderr]).toEqual([1, "Set both REGISTRY_USER and REGISTRY_PASSWORD, or neither.\n"]);
});

test("a working tree with changes makes no release", async () => {
  const folder = mkdtempSync(join(tmpdir(), "berth-release-"));
  try {
    expect(spawnSync("git", ["init", "--quiet", folder]).status).toBe(0);
    await requireClean(folder);
    writeFileSync(join(folder, "new.ts"), "");
    await expect(requireClean(folder)).rejects.toThrow("Commit or remove these changes first:\n?? new.ts");
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("images have the programs of the commit, without tests and pictures", async () => {
  const paths = (await appFiles(root)).map(({ path }) => path);
  for (const path of [
    "gateway/main.ts",
    "services/deployer/schema.sql",
    "docs/README.md",
    "deploy/images/berth.sh",
  ])
    expect(paths).toContain(`app/${path}`);
  expect(
    paths.filter((path) => /\.test\.ts$|\/testing(?:\.ts$|\/)|^app\/docs\/pictures\//.test(path)),
  ).toEqual([]);
});
