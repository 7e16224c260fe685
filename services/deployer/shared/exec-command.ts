import { shellQuote } from "./shell-quote.ts";

const SHELL_BUILTINS = new Set([
  ".",
  ":",
  "cd",
  "command",
  "eval",
  "exec",
  "exit",
  "export",
  "read",
  "set",
  "source",
  "trap",
  "ulimit",
  "umask",
]);

/**
 * Makes a single command replace its shell: it gets the signals that ask it to end, which a shell keeps to itself, and
 * its exit code is its own.
 */
export function withExec(command: string): string {
  const [, first] = /^([\w./-]+)(?![\w./-])[^;&|\n]*$/.exec(command.trim()) ?? [];
  const plain = first !== undefined && !SHELL_BUILTINS.has(first) && !/^[\w./-]+=/.test(command.trim());
  return plain ? `exec ${command.trim()}` : command;
}

/** Starts apps that buildpacks built, with the environment that they made. */
export const LAUNCHER = "/cnb/lifecycle/launcher";

/** Returns the command that runs another one by the launcher of an image that buildpacks made. */
export function withLauncher(command: string): string {
  return `exec ${LAUNCHER} ${shellQuote(withExec(command))}`;
}
