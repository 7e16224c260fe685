import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

test("each command of the image runs a program that is in it, and is in its usage", () => {
  const script = readFileSync(join(import.meta.dirname, "berth.sh"), "utf8");
  const usage = /usage: berth (\S+)\|\$/.exec(script)![1]!.split("|");
  const commands = [...script.matchAll(/^ {2}([\w-]+)\) file=\/app\/((?:services|gateway)\/\S+) ;;$/gm)];
  expect(commands.map(([, name]) => name)).toEqual(usage);
  for (const [, , file] of commands) expect([file, existsSync(file!)]).toEqual([file, true]);
});
