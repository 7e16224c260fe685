import { type ChildProcess, type SpawnOptions, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { eventually } from "../../services/kit/testing/testing.ts";

const BIN = join(import.meta.dirname, "../../clients/cli/bin/berth.js");

export type Ran = { code: number | null; stdout: string; stderr: string };
type Options = { cwd?: string; env?: Record<string, string>; input?: string };

/** A user's machine: a home and a folder of its own, on which `berth` runs as a process. */
export function openMachine(more: Record<string, string> = {}) {
  const home = mkdtempSync(join(tmpdir(), "berth-home-"));
  const folder = join(home, "shop");
  mkdirSync(folder);
  // A browser that opens nothing: tests are the user.
  const env = { PATH: process.env.PATH!, HOME: home, BROWSER: "true", ...more };

  /** Starts berth without a terminal. */
  function start(args: string[], { cwd = folder, env: own = {}, input }: Options = {}) {
    const stdio: SpawnOptions["stdio"] = [input === undefined ? "ignore" : "pipe", "pipe", "pipe"];
    const child = spawn(process.execPath, [BIN, ...args], { cwd, env: { ...env, ...own }, stdio });
    if (input !== undefined) child.stdin!.end(input);
    return follow(child);
  }

  return {
    home,
    folder,
    env,
    credentials: join(home, ".config/berth/credentials.json"),
    start,
    /** Runs berth to its end. */
    berth: (args: string[], options?: Options): Promise<Ran> => start(args, options).ended,
    /** Runs berth to its end, which must be a success; returns what it printed to stdout. */
    async must(args: string[], options?: Options): Promise<string> {
      const { code, stdout, stderr } = await start(args, options).ended;
      if (code !== 0) throw new Error(`berth ${args.join(" ")} ended with ${code}: ${stdout}${stderr}`);
      return stdout;
    },
    /** Starts berth in a pseudo-terminal, of util-linux's `script`. */
    inTerminal(args: string[]) {
      const command = [process.execPath, BIN, ...args].map((arg) => `'${arg}'`).join(" ");
      const options = { cwd: folder, env: { ...env, TERM: "xterm-256color", SHELL: "/bin/sh" } };
      return follow(spawn("script", ["-qefc", command, "/dev/null"], options));
    },
    write(files: Record<string, string>, at = folder) {
      for (const [path, text] of Object.entries(files)) {
        mkdirSync(dirname(join(at, path)), { recursive: true });
        writeFileSync(join(at, path), text);
      }
    },
    remove: () => rmSync(home, { recursive: true, force: true }),
  };
}

export type Machine = ReturnType<typeof openMachine>;

/** Whether this machine has a program that makes pseudo-terminals, which Node cannot. */
export const hasTerminals =
  spawnSync("script", ["-qefc", "true", "/dev/null"], { stdio: "pipe" }).status === 0;

function follow(child: ChildProcess) {
  const out: Record<"stdout" | "stderr", string> = { stdout: "", stderr: "" };
  for (const name of ["stdout", "stderr"] as const)
    child[name]!.setEncoding("utf8").on("data", (text: string) => {
      out[name] += text;
    });
  const ended = once(child, "close").then(([code]) => ({ code: code as number | null, ...out }));
  return {
    child,
    ended,
    /** Waits until berth has printed something that matches, and returns the match. */
    said: (pattern: RegExp) =>
      eventually(`berth says ${pattern}`, async () => {
        const match = pattern.exec(out.stdout + out.stderr);
        if (!match && child.exitCode !== null) throw new Error(`berth ended: ${out.stdout}${out.stderr}`);
        return match;
      }),
  };
}
