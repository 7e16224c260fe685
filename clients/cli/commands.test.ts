import { execFileSync, spawnSync } from "node:child_process";
import { closeSync, openSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { type Command, parseCommand } from "./command.ts";
import { COMMON } from "./description.ts";
import { commandHelp, overview } from "./help.ts";
import { ENTRIES, loadAll } from "./registry.ts";
import { VERSION } from "./version.ts";

let all: Command[];

beforeAll(async () => {
  all = await loadAll();
});

const SCREEN = { lines: 50, columns: 100 };

test("each word loads its commands, and help of each fits a screen and begins with examples", () => {
  const words = new Set(all.map(({ name }) => name.split(" ")[0]));
  expect(ENTRIES.map(({ word }) => word)).toEqual([...words]);
  for (const text of [overview(), ...all.map(commandHelp)]) {
    const lines = text.split("\n");
    expect(lines.length).toBeLessThanOrEqual(SCREEN.lines);
    expect(lines.filter((line) => line.length > SCREEN.columns && !/^ {2}berth /.test(line))).toEqual([]);
  }
  for (const each of all) expect(commandHelp(each)).toMatch(/^ {2}berth /);
});

test("what the examples of help type can be typed", () => {
  const lines = all.flatMap(({ examples }) => examples.map(([line]) => line));
  const typed = lines.map((line) => `printf '%s\\0' ${line.replace(/ [<>] .*/, "")}; printf '\\n\\0'`);
  const output = execFileSync("bash", ["-c", typed.join("\n")], { encoding: "utf8" });
  const split = output.split("\n\0").slice(0, -1);
  expect(split.length).toBe(lines.length);
  for (const [n, text] of split.entries()) {
    const words = text.split("\0").slice(0, -1);
    const found =
      all.find(({ name }) => name === words.slice(0, 2).join(" ")) ??
      all.find(({ name }) => name === words[0]);
    expect([lines[n], found?.name]).toEqual([lines[n], expect.any(String)]);
    expect(() => parseCommand(found!, words.slice(found!.name.split(" ").length))).not.toThrow();
  }
});

test("no option of a command hides one that all have, and short ones differ", () => {
  for (const { name, options = {} } of all) {
    const both = { ...options, ...COMMON } as Record<string, { short?: string }>;
    expect([name, Object.keys(options).filter((each) => each in COMMON)]).toEqual([name, []]);
    const short = Object.values(both).flatMap((each) => each.short ?? []);
    expect([name, short.length]).toEqual([name, new Set(short).size]);
  }
});

test("the version is the package's", () => {
  const { version } = JSON.parse(readFileSync(join(import.meta.dirname, "package.json"), "utf8")) as {
    version: string;
  };
  expect(VERSION).toBe(version);
});

test.each(["bash", "zsh", "fish"])(
  "completion of %s is a script that the shell reads, if it is here",
  (shell) => {
    if (spawnSync(shell, ["--version"]).status !== 0) return;
    const bin = join(import.meta.dirname, "bin/berth.js");
    const script = execFileSync(process.execPath, [bin, "completion", shell], { encoding: "utf8" });
    expect(execFileSync(shell, ["-n"], { input: script, encoding: "utf8" })).toBe("");
  },
);

test("bash completes commands, their second words, and options", () => {
  const bin = join(import.meta.dirname, "bin/berth.js");
  const script = execFileSync(process.execPath, [bin, "completion", "bash"], { encoding: "utf8" });
  const complete = (line: string) => {
    const words = line.split(" ");
    const typed = `${script}\nCOMP_WORDS=(${words.map((word) => `'${word}'`).join(" ")}); COMP_CWORD=${words.length - 1}; _berth; echo "\${COMPREPLY[*]}"`;
    return execFileSync("bash", ["-c", typed], { encoding: "utf8" }).trim().split(" ");
  };
  expect(complete("berth ro")).toEqual(["rollback"]);
  expect(complete("berth vars un")).toEqual(["unset"]);
  expect(complete("berth vars set --sen")).toEqual(["--sensitive"]);
  expect(complete("berth up --de")).toEqual(["--detach"]);
});

test("a result that no disk takes is an error in a sentence", () => {
  const full = openSync("/dev/full", "w");
  for (const args of [["help"], ["completion", "bash"]]) {
    const program = join(import.meta.dirname, "bin/berth.js");
    const { status, stderr } = spawnSync(process.execPath, [program, ...args], {
      encoding: "utf8",
      stdio: ["ignore", full, "pipe"],
    });
    expect([status, stderr]).toEqual([
      1,
      "Error: The output is not whole: no space is left where it is written to.\n",
    ]);
  }
  closeSync(full);
});
