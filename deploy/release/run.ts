import { execFile, spawn } from "node:child_process";
import type { Readable } from "node:stream";

/** Runs a program and returns its output. Rejects with the last lines that it printed. */
export function run(file: string, args: string[], options: { cwd?: string; env?: NodeJS.ProcessEnv } = {}) {
  return new Promise<string>((resolve, reject) => {
    execFile(file, args, { maxBuffer: 64 << 20, ...options }, (error, stdout, stderr) => {
      if (!error) return resolve(stdout);
      const lines = (stderr || stdout || error.message).trim().split("\n").slice(-15).join("\n");
      reject(new Error(`${file} ${args[0]} failed:\n${lines}`, { cause: error }));
    });
  });
}

/** Runs a program whose output `read` consumes. Rejects when either fails. */
export async function runInto<T>(
  file: string,
  args: string[],
  cwd: string,
  read: (output: Readable) => Promise<T>,
) {
  const child = spawn(file, args, { cwd, stdio: ["ignore", "pipe", "pipe"] });
  let said = "";
  child.stderr.on("data", (part) => (said = (said + part).slice(-2_000)));
  const ended = new Promise<void>((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (code) =>
      code === 0 ? resolve() : reject(new Error(`${file} ${args[0]} ended with ${code}:\n${said.trim()}`)),
    );
  });
  const [result] = await Promise.all([read(child.stdout), ended]);
  return result;
}
