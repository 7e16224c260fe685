import { execFile } from "node:child_process";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { expect, onTestFinished, test, vi } from "vitest";
import { wallsHere } from "../testing/walls.ts";

const project = join(import.meta.dirname, "../../..");

test.skipIf(!wallsHere)(
  "a build that may write the home folder cannot change Berth itself, which lies there",
  async () => {
    const folder = await mkdtemp(join(tmpdir(), "berth-walls-"));
    onTestFinished(() => rm(folder, { recursive: true }));
    vi.stubEnv("HOME", dirname(project));
    onTestFinished(() => void vi.unstubAllEnvs());
    const walls = await wallsHere!([folder]);
    const sight = { cwd: folder, write: [folder], tmp: folder, home: true };
    const can = async (command: string) => {
      const [file, ...args] = walls(["/bin/sh", "-c", command, "sh", project, dirname(project)], sight);
      return promisify(execFile)(file!, args).then(
        () => true,
        () => false,
      );
    };
    expect(await can('test -w "$2"')).toBe(true);
    expect(await can('test -r "$1/package.json"')).toBe(true);
    expect(await can('test -w "$1" || test -w "$1/package.json"')).toBe(false);
  },
);

test.skipIf(!wallsHere)("programs that lie in /tmp are seen, and what lies beside them is not", async () => {
  const [folder, berth] = await Promise.all([1, 2].map(() => mkdtemp("/tmp/berth-walls-")));
  onTestFinished(async () => {
    for (const made of [folder!, berth!]) await rm(made, { recursive: true });
  });
  await mkdir(join(berth!, "node/bin"), { recursive: true });
  for (const file of ["node/bin/node", "secrets.json"]) await writeFile(join(berth!, file), "");
  const walls = await wallsHere!([folder!]);
  const tools = [join(berth!, "node/bin")];
  const sight = { cwd: folder!, write: [folder!], tmp: folder!, tools };
  const look = 'test -r "$1/node/bin/node" && ! test -e "$1/secrets.json"';
  const [file, ...args] = walls(["/bin/sh", "-c", look, "sh", berth!], sight);
  await promisify(execFile)(file!, args);
});
