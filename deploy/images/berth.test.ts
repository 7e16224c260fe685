import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { NODE_FLAGS } from "../local/programs/program-process.ts";

const script = readFileSync(join(import.meta.dirname, "berth.sh"), "utf8");
const commands = [...script.matchAll(/^ {2}([\w-]+)\) file=\/app\/((?:services|gateway|deploy)\/\S+) ;;$/gm)];

test("node runs in the image as on one machine", () => {
  expect(script).toContain(`exec node ${NODE_FLAGS.join(" ")} "$file"`);
});

test("each command of the image runs a program that is in it, and is in its usage", () => {
  const usage = /usage: berth (\S+)\|\$/.exec(script)![1]!.split("|");
  expect(commands.map(([, name]) => name)).toEqual(usage);
  for (const [, , file] of commands) expect([file, existsSync(file!)]).toEqual([file, true]);
});

test.each(commands.map(([, name, file]) => [name, file]))(
  "%s says what it lacks, without a stack",
  (_, file) => {
    // An account of `agreement`, which the others take for something else they do not know.
    const args = [file!, "acc_00000000000000000000000000", "on"];
    const { status, stdout, stderr } = spawnSync(process.execPath, args, {
      env: { PATH: process.env.PATH },
      encoding: "utf8",
    });
    expect([status === 0, stdout]).toEqual([false, ""]);
    expect(stderr).toMatch(/\w+/);
    expect(stderr).not.toMatch(/^ +at /m);
  },
);
